//! What an engine's results depend on to the last bit, as one name.
//!
//! Two kinds of things go into a fingerprint: what is declared (weights, configs, types, bounds, versions, instruction
//! sets) and what is observed ([`probe`]: the bits of a few computations, which show what no version tells, such as the
//! C library's `exp` or the cache sizes by which products are blocked).
//!
//! The number of threads stays out: products are split over threads by tiles of their result, never along a sum, and
//! the tests compare whole generations under several counts. So do the caches beyond the first level, which only decide
//! in what order tiles are computed.

mod machine;
mod probe;
#[cfg(test)]
mod tests;
mod transcript;
mod weights;

use crate::engine::{EngineConfig, MemoryBounds};
use crate::load::{LoadError, Loading, Mapped};
use crate::ops::Ops;
use transcript::Transcript;

/// Raised by every change of this crate that changes a result in any bit.
const KERNEL_REVISION: u32 = 2;

/// The libraries that compute or tokenize, with their versions.
const LIBRARIES: [(&str, &str); 5] = [
    ("candle-core", "0.11.1"),
    ("gemm-f32", "0.19.0"),
    ("gemm-common", "0.19.0"),
    ("half", "2.7.1"),
    ("tokenizers", "0.23.2"),
];

/// Returns the fingerprint of an engine of `config` that has loaded the partition of `mapped`, 64 hex digits. `device`
/// describes what computes beside the processor.
///
/// It reads a sample of the weights, 4 KiB of each tensor and for each 64 MiB of it: about 20 MB in 5,000 places of a
/// checkpoint of released size. It computes for about a tenth of a second.
///
/// Errors: [`LoadError`] when the tokenizer cannot be read or the backend fails; [`LoadError::Stopped`].
pub(crate) fn fingerprint<O: Ops>(
    ops: &O,
    device: Option<&str>,
    mapped: &Mapped,
    config: &EngineConfig,
    loading: Loading<'_>,
) -> Result<String, LoadError> {
    let mut transcript = Transcript::begin("clapboard engine fingerprint 1");
    transcript.say("crate", env!("CARGO_PKG_VERSION"));
    transcript.say("kernels", KERNEL_REVISION);
    for (library, version) in LIBRARIES {
        transcript.say(library, version);
    }
    machine::describe(&mut transcript);
    if let Some(device) = device {
        transcript.say("device", device);
    }
    probe::observe(ops, &mut transcript)?;

    // Spelled out, so that a new field cannot be forgotten here.
    // Where weights are and what is kept between requests change no bit; the device is described above.
    let EngineConfig {
        checkpoint: _,
        partitions: _,
        dtype,
        decode,
        memory,
        device: _,
        attention: _,
        placement: _,
        adaln_cache_bytes: _,
        budgets: _,
    } = config;
    let MemoryBounds { attention_bytes, feed_forward_bytes, qkv_bytes } = memory;
    transcript.say("partition", mapped.partition);
    transcript.say("dtype", format_args!("{dtype:?}"));
    transcript.say("decode", format_args!("{decode:?}"));
    transcript.say("attention_bytes", attention_bytes);
    transcript.say("feed_forward_bytes", feed_forward_bytes);
    transcript.say("qkv_bytes", qkv_bytes);
    transcript.say("processor", format_args!("{:?}", mapped.checkpoint.processor()?));
    weights::describe(mapped, loading, &mut transcript)?;
    Ok(transcript.end())
}
