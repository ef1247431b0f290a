//! The machine, as far as kernels are chosen by it.

use std::env::consts::{ARCH, OS};

use super::transcript::Transcript;

/// Takes note of the platform and of the instruction sets that products and conversions are dispatched on.
pub(super) fn describe(transcript: &mut Transcript) {
    transcript.say("os", OS);
    transcript.say("arch", ARCH);
    for (name, present) in instruction_sets() {
        transcript.say(name, present);
    }
}

#[cfg(target_arch = "x86_64")]
fn instruction_sets() -> [(&'static str, bool); 4] {
    [
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
    ]
}

#[cfg(target_arch = "aarch64")]
fn instruction_sets() -> [(&'static str, bool); 2] {
    use std::arch::is_aarch64_feature_detected;
    [("neon", is_aarch64_feature_detected!("neon")), ("fp16", is_aarch64_feature_detected!("fp16"))]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction_sets() -> [(&'static str, bool); 0] {
    []
}
