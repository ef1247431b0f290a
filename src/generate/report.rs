//! What a finished generation tells about itself.

use std::fmt;
use std::path::Path;

use clapboard_engine::{ComputeDtype, GenerationReport};
use clapboard_h3::GenerationSpec;
use serde_json::{Map, Value, json};

/// The result of one generation, for people (`Display`) and machines ([`Report::json`]).
pub(crate) struct Report<'a> {
    pub(crate) output: &'a Path,
    pub(crate) spec: &'a GenerationSpec,
    pub(crate) dtype: ComputeDtype,
    pub(crate) run: &'a GenerationReport,
    pub(crate) size_bytes: u64,
    pub(crate) load_seconds: f64,
    pub(crate) total_seconds: f64,
    pub(crate) peak_memory_bytes: u64,
}

impl Report<'_> {
    /// Gives everything as one JSON object.
    pub(crate) fn json(&self) -> Value {
        let stages = self.run.phase_seconds.iter().map(|(phase, seconds)| (phase.as_str().to_owned(), json!(seconds)));
        json!({
            "output": self.output.display().to_string(),
            "size_bytes": self.size_bytes,
            "task": self.spec.task,
            "size": self.spec.canvas.to_string(),
            "num_frames": self.spec.num_frames.get(),
            "duration_s": self.spec.num_frames.seconds(),
            "num_inference_steps": self.spec.video_sigmas.points(),
            "forwards": self.run.forwards,
            "rows": self.run.rows,
            "seed": signed_seed(self.spec),
            "recipe": self.spec.recipe,
            "quality": self.spec.quality,
            "dtype": dtype_name(self.dtype),
            "load_s": self.load_seconds,
            "stage_durations_s": stages.collect::<Map<String, Value>>(),
            "total_s": self.total_seconds,
            "peak_memory_bytes": self.peak_memory_bytes,
        })
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "wrote        {} ({} bytes)", self.output.display(), self.size_bytes)?;
        writeln!(f, "seed         {}", signed_seed(self.spec))?;
        writeln!(f, "{:<12} {:>9.2} s", "load", self.load_seconds)?;
        for (phase, seconds) in &self.run.phase_seconds {
            writeln!(f, "{:<12} {seconds:>9.2} s", phase.as_str())?;
        }
        writeln!(f, "{:<12} {:>9.2} s", "total", self.total_seconds)?;
        write!(f, "peak memory  {:>9.1} MiB", self.peak_memory_bytes as f64 / f64::from(1 << 20))
    }
}

/// The seed as requests give it: PyTorch takes negative seeds, which are kept in two's complement.
pub(crate) fn signed_seed(spec: &GenerationSpec) -> i64 {
    spec.seed.cast_signed()
}

fn dtype_name(dtype: ComputeDtype) -> &'static str {
    match dtype {
        ComputeDtype::F32 => "f32",
        ComputeDtype::Bf16 => "bf16",
    }
}
