//! Why nothing could be measured.

use std::convert::Infallible;
use std::path::PathBuf;

use super::stage::Stage;
use crate::checkpoint;
use crate::generate::GenerateError;
use crate::load::LoadError;
use crate::ops::cuda::CudaError;
use crate::ops::{DType, OpError};
use crate::run::RunError;
use crate::{audio_vae, video_vae};

/// Why a stage could not be measured or its block not be written.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// There are too few or too many rows for a sequence, or too few frames for a film.
    #[error("{stage} cannot be measured over {rows} {}: {least} to {most} can", stage.counts())]
    Rows {
        /// The stage.
        stage: Stage,
        /// What was asked for.
        rows: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The picture's sides do not lie on the latent grid.
    #[error("{width} x {height} pixels are not multiples of {step} of at least {step}")]
    Sides {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Pixels per latent and side.
        step: usize,
    },
    /// The stage does not compute in that type.
    #[error("{stage} does not compute in {dtype}: it does in {}", names(stage.dtypes()))]
    Dtype {
        /// The stage.
        stage: Stage,
        /// What was asked for.
        dtype: DType,
    },
    /// Nothing would be measured.
    #[error("a stage must be measured at least once")]
    NoRepeats,
    /// The device failed, or weights could not be drawn.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The network failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The video decoder failed.
    #[error(transparent)]
    VideoDecode(#[from] video_vae::DecodeError<Infallible>),
    /// The video encoder failed.
    #[error(transparent)]
    VideoEncode(#[from] video_vae::EncodeError),
    /// The audio decoder failed.
    #[error(transparent)]
    Audio(#[from] audio_vae::DecodeError),
    /// There is no such film.
    #[error("the film cannot be made: {0}")]
    Film(String),
    /// The checkpoint without data could not be written.
    #[error(transparent)]
    Sparse(#[from] checkpoint::tiny::Error),
    /// The generation failed.
    #[error("the generation failed")]
    Generate(#[source] Box<GenerateError>),
    /// The tensors of a block could not be written.
    #[error("could not write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

fn names(dtypes: &[DType]) -> String {
    dtypes.iter().map(DType::to_string).collect::<Vec<_>>().join(", ")
}

impl From<CudaError> for BenchError {
    fn from(error: CudaError) -> Self {
        Self::Load(LoadError::Device(error))
    }
}

impl From<OpError> for BenchError {
    fn from(error: OpError) -> Self {
        Self::Run(RunError::Op(error))
    }
}

impl From<checkpoint::Error> for BenchError {
    fn from(error: checkpoint::Error) -> Self {
        Self::Load(LoadError::Checkpoint(error))
    }
}
