//! What a running generation tells about itself.

use std::fmt;

/// The phases of one generation, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The language model reads the prompt.
    TextEncode,
    /// The VAEs encode keyframes and references, if there are any.
    EncodeInputs,
    /// The DiT denoises the latents.
    Denoise,
    /// The audio VAE decodes samples.
    DecodeAudio,
    /// The video VAE decodes frames.
    DecodeVideo,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Phase; 5] =
        [Phase::TextEncode, Phase::EncodeInputs, Phase::Denoise, Phase::DecodeAudio, Phase::DecodeVideo];

    /// Returns the name in logs, timings and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::TextEncode => "text_encode",
            Phase::EncodeInputs => "encode_inputs",
            Phase::Denoise => "denoise",
            Phase::DecodeAudio => "decode_audio",
            Phase::DecodeVideo => "decode_video",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One sign of life. Every event means that the engine moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressEvent {
    /// A phase began.
    Phase(Phase),
    /// A part of the current phase is done: a language-model layer, a DiT block, an upsampling stage, a decoder tile.
    Part {
        /// Parts done in this phase.
        done: usize,
        /// Parts of this phase.
        total: usize,
    },
    /// A denoising step is done.
    Step {
        /// Steps done.
        done: usize,
        /// Steps of the schedule: its forwards.
        total: usize,
    },
}

/// Hears progress. Called from the engine's thread: has to be cheap and must not block.
pub trait Progress: Send + Sync {
    /// Takes note of one event.
    fn report(&self, event: ProgressEvent);

    /// Takes note that another part of the weights is there, of those that are loaded before the generation begins or that
    /// it brings in for a phase: a sign of life.
    fn loading(&self) {}
}

/// Makes one count of the parts of several networks that run in one phase one after the other: each has an equal share,
/// whatever its own parts are.
pub(crate) struct ShareProgress<'a> {
    /// Hears the common count.
    pub(crate) progress: &'a dyn Progress,
    /// The network's place among those of the phase.
    pub(crate) index: usize,
    /// The networks of the phase.
    pub(crate) total: usize,
}

impl ShareProgress<'_> {
    /// What a network counts for beside others.
    const PARTS: usize = 1000;
}

impl Progress for ShareProgress<'_> {
    fn report(&self, event: ProgressEvent) {
        let event = match event {
            ProgressEvent::Part { done, total } if self.total > 1 => ProgressEvent::Part {
                done: self.index * Self::PARTS + done * Self::PARTS / total.max(1),
                total: self.total * Self::PARTS,
            },
            other => other,
        };
        self.progress.report(event);
    }
}

/// Listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn report(&self, _event: ProgressEvent) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<ProgressEvent>>);

    impl Progress for Heard {
        fn report(&self, event: ProgressEvent) {
            self.0.lock().unwrap().push(event);
        }
    }

    fn heard(total: usize) -> Vec<ProgressEvent> {
        let heard = Heard::default();
        for index in 0..total {
            let share = ShareProgress { progress: &heard, index, total };
            for done in 1..=2 {
                share.report(ProgressEvent::Part { done, total: 2 });
            }
        }
        heard.0.into_inner().unwrap()
    }

    #[test]
    fn parts_of_several_networks_count_up_together() {
        assert_eq!(heard(2), [500, 1000, 1500, 2000].map(|done| ProgressEvent::Part { done, total: 2000 }));
    }

    #[test]
    fn a_network_that_is_alone_keeps_its_own_parts() {
        assert_eq!(heard(1), [1, 2].map(|done| ProgressEvent::Part { done, total: 2 }));
    }
}
