//! From a request and its prepared references to what the text encoder and the vision tower read.

use clapboard_h3::prepare::PreparedReference;

use super::presentation::{Presentation, PresentedReference, VisionTokens};
use super::tokenizer::{self, Tokenizer};
use crate::checkpoint::Checkpoint;
use crate::load::LoadError;
use crate::vision::{PixelFront, VisionError, VisionInput};

/// Why a request cannot be presented.
#[derive(Debug, thiserror::Error)]
pub enum PresentError {
    /// The prompt was refused.
    #[error(transparent)]
    Text(#[from] tokenizer::Error),
    /// A picture or video was refused.
    #[error(transparent)]
    Vision(#[from] VisionError),
}

/// A request as the networks read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Presented {
    /// The language model's rows.
    pub presentation: Presentation,
    /// What the vision tower reads for the placeholders among them.
    pub vision: VisionInput,
}

/// Presents requests with a checkpoint's tokenizer and processor.
#[derive(Debug)]
pub struct Presenter {
    tokenizer: Tokenizer,
    tokens: VisionTokens,
    front: PixelFront,
}

impl Presenter {
    /// Loads the tokenizer and the processor's config; no weights.
    ///
    /// Errors: [`LoadError`] naming the file.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        Ok(Self {
            tokenizer: Tokenizer::load(&checkpoint.tokenizer_path()?, &checkpoint.text_encoder().text)?,
            tokens: VisionTokens::of(checkpoint.text_encoder()),
            front: PixelFront::new(checkpoint.processor()?),
        })
    }

    /// Returns the processor in front of the vision tower.
    pub fn front(&self) -> PixelFront {
        self.front
    }

    /// Presents `prompt` with `references` in packed order, keyframes among them; whether they go with a task is known
    /// from the specification.
    ///
    /// Errors: [`PresentError`]; nothing of it is left behind.
    pub fn present(&self, prompt: &str, references: &[PreparedReference]) -> Result<Presented, PresentError> {
        if references.is_empty() {
            let presentation = Presentation::t2va(&self.tokenizer, prompt)?;
            return Ok(Presented { presentation, vision: VisionInput::default() });
        }
        let mut vision = VisionInput::default();
        let mut presented = Vec::with_capacity(references.len());
        for reference in references {
            presented.push(match reference {
                PreparedReference::Audio(_) => PresentedReference::Audio,
                PreparedReference::Image(picture) => {
                    let patches = self.front.image(picture)?;
                    let grid = patches.grid();
                    vision.images.push(patches);
                    PresentedReference::Image(grid)
                }
                PreparedReference::Video { clip, soundtrack } => {
                    let sampled = self.front.video(clip)?;
                    let grid = sampled.patches.grid();
                    vision.videos.push(sampled.patches);
                    PresentedReference::Video { soundtrack: soundtrack.is_some(), grid, timestamps: sampled.timestamps }
                }
            });
        }
        let presentation = Presentation::with_references(&self.tokenizer, self.tokens, prompt, &presented)?;
        Ok(Presented { presentation, vision })
    }
}
