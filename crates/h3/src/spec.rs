//! The fully resolved, stored description of one run.

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::canvas::Canvas;
use crate::cost::{CostModel, Tflop};
use crate::frames::FrameCount;
use crate::geometry::{GeometryError, GeometryProfile};
use crate::input::{self, Input, InputsError};
use crate::packing::Target;
use crate::quality::Quality;
use crate::recipe::Recipe;
use crate::sigmas::Sigmas;
use crate::task::{Partition, Task};

/// Everything a worker needs to run a job, with nothing left to derive.
///
/// It is stored as JSON; numbers survive the way there and back bit for bit. A change of meaning raises
/// [`GenerationSpec::VERSION`], and a worker refuses the versions that it does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationSpec {
    /// The version of this description.
    #[serde(deserialize_with = "known_version")]
    pub version: u32,
    /// What the run starts from.
    pub task: Task,
    /// The transformer weights it needs; always [`Task::partition`] of the task.
    pub partition: Partition,
    /// Which of the published recipes it follows.
    pub recipe: Recipe,
    /// The text to generate from, used verbatim.
    pub prompt: String,
    /// The pixels of the video.
    pub canvas: Canvas,
    /// The frames of the video, at 24 per second.
    pub num_frames: FrameCount,
    /// The noise levels of the video.
    pub video_sigmas: Sigmas,
    /// The noise levels of the audio; as many as the video's.
    pub audio_sigmas: Sigmas,
    /// The seed of the noise, of which PyTorch's CPU generator uses the low 32 bits.
    pub seed: u64,
    /// How the MP4 is encoded.
    pub quality: Quality,
    /// The geometry that the request was resolved against.
    pub geometry: GeometryProfile,
    /// Keyframes or references, in packed order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
}

impl GenerationSpec {
    /// The version of a description without inputs.
    pub const VERSION: u32 = 1;
    /// The version of one that has inputs, which builds that know only [`Self::VERSION`] cannot run.
    pub const VERSION_WITH_INPUTS: u32 = 2;
    /// The versions that this build reads.
    pub const KNOWN_VERSIONS: [u32; 2] = [Self::VERSION, Self::VERSION_WITH_INPUTS];

    /// Returns the version that a description with these inputs has.
    pub fn version_with(inputs: &[Input]) -> u32 {
        if inputs.is_empty() { Self::VERSION } else { Self::VERSION_WITH_INPUTS }
    }

    /// Writes the specification as JSON.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("a struct with string keys and finite numbers is always JSON")
    }

    /// Reads a specification from JSON.
    ///
    /// Errors: [`SpecError::UnknownVersion`] before anything else is looked at, so that a newer build's specification
    /// is told apart from a broken one; [`SpecError::Malformed`]; and what [`GenerationSpec::check`] refuses.
    pub fn decode(json: &str) -> Result<Self, SpecError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(json).map_err(SpecError::Malformed)?;
        if !Self::KNOWN_VERSIONS.contains(&version) {
            return Err(SpecError::UnknownVersion { found: version });
        }
        let spec: Self = serde_json::from_str(json).map_err(SpecError::Malformed)?;
        spec.check()?;
        Ok(spec)
    }

    /// Checks what holds between the fields.
    ///
    /// Errors: [`SpecError::Version`], [`SpecError::Partition`], [`SpecError::Sigmas`], [`SpecError::Prompt`],
    /// [`SpecError::Inputs`] or [`SpecError::Geometry`].
    pub fn check(&self) -> Result<(), SpecError> {
        if self.version != Self::version_with(&self.inputs) {
            return Err(SpecError::Version { found: self.version, inputs: self.inputs.len() });
        }
        if self.partition != self.task.partition() {
            return Err(SpecError::Partition { task: self.task, partition: self.partition });
        }
        if self.video_sigmas.points() != self.audio_sigmas.points() {
            return Err(SpecError::Sigmas { video: self.video_sigmas.points(), audio: self.audio_sigmas.points() });
        }
        if self.prompt.is_empty() {
            return Err(SpecError::Prompt);
        }
        input::check(self.task, self.recipe, &self.inputs).map_err(SpecError::Inputs)?;
        self.geometry.check().map_err(SpecError::Geometry)
    }

    /// Returns the number of forwards of the transformer.
    pub fn forwards(&self) -> usize {
        self.video_sigmas.forwards()
    }

    /// Returns the shape of what is generated, in latents.
    pub fn target(&self) -> Target {
        Target::new(self.canvas, self.num_frames)
    }

    /// Estimates the number of text rows without a tokenizer: one for every four bytes of the prompt.
    ///
    /// English prose has a token for every four to five bytes, Chinese one for every four or so (three bytes a
    /// character). The estimate weighs jobs against each other; it bounds nothing.
    pub fn estimated_text_rows(&self) -> usize {
        self.prompt.len().div_ceil(4)
    }

    /// Returns a bound on the rows of the packed sequence, known without a tokenizer: no token is shorter than a byte.
    pub fn rows_bound(&self) -> usize {
        self.all_rows(self.prompt.len().saturating_add(Self::PRESENTATION_ROWS))
    }

    /// Adds the target's rows and a bound on those of the inputs to `text_rows`; more than can be counted saturate.
    fn all_rows(&self, text_rows: usize) -> usize {
        let own = text_rows.saturating_add(self.target().rows());
        self.inputs.iter().fold(own, |rows, input| rows.saturating_add(input.shape.rows_bound()))
    }

    /// More rows than the presentation puts around a prompt.
    const PRESENTATION_ROWS: usize = 256;

    /// Estimates what the run takes at the released dimensions, by [`CostModel::released`].
    pub fn cost(&self) -> Tflop {
        let rows = self.all_rows(self.estimated_text_rows());
        CostModel::released().generation(rows, self.forwards(), self.canvas, self.num_frames)
    }
}

fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let found = u32::deserialize(deserializer)?;
    if GenerationSpec::KNOWN_VERSIONS.contains(&found) {
        Ok(found)
    } else {
        Err(de::Error::custom(SpecError::UnknownVersion { found }))
    }
}

/// Why a stored specification cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Another build wrote it, in a version that this one does not know.
    #[error("generation spec has version {found}, this build knows versions {known:?}", known = GenerationSpec::KNOWN_VERSIONS)]
    UnknownVersion {
        /// The version of the stored specification.
        found: u32,
    },
    /// It is not the JSON of a specification.
    #[error("generation spec is malformed")]
    Malformed(#[source] serde_json::Error),
    /// Its version is not the one of a description with so many inputs.
    #[error("generation spec of version {found} has {inputs} inputs")]
    Version {
        /// The version of the stored specification.
        found: u32,
        /// How many inputs it has.
        inputs: usize,
    },
    /// Its inputs are not those of its task.
    #[error("generation spec has unusable inputs")]
    Inputs(#[source] InputsError),
    /// Its partition is not the one of its task.
    #[error("generation spec names partition {partition} for task {task}")]
    Partition {
        /// The task of the stored specification.
        task: Task,
        /// The partition of the stored specification.
        partition: Partition,
    },
    /// Its two sigma grids differ in length.
    #[error("generation spec has {video} video sigmas and {audio} audio sigmas")]
    Sigmas {
        /// The number of the video's points.
        video: usize,
        /// The number of the audio's points.
        audio: usize,
    },
    /// It has no prompt.
    #[error("generation spec has an empty prompt")]
    Prompt,
    /// Its geometry makes no sense.
    #[error("generation spec has an unusable geometry")]
    Geometry(#[source] GeometryError),
}

#[cfg(test)]
mod tests;
