//! Where recipe, manifest and small files come from.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::files::{self, FileError, TABLE_LIMIT};

/// The recipe, inside a golden folder.
pub(super) const RECIPE: &str = "recipe.json";

/// The manifest of a checkpoint's files, inside a golden folder.
pub(super) const MANIFEST: &str = "configs/manifest.json";

/// Embeds files of the repository's golden folder: the one source of truth of the tiny model, which the golden tests
/// read too.
macro_rules! embed {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_bytes!(concat!("../../../../../tests/golden/", $path)))),*]
    };
}

static EMBEDDED: &[(&str, &[u8])] = embed![
    "recipe.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "configs/manifest.json",
    "configs/diffusers/modular_model_index.json",
    "configs/diffusers/audio_scheduler/scheduler_config.json",
    "configs/diffusers/audio_vae/config.json",
    "configs/diffusers/processor/processor_config.json",
    "configs/diffusers/processor/tokenizer_config.json",
    "configs/diffusers/scheduler/scheduler_config.json",
    "configs/diffusers/text_encoder/config.json",
    "configs/diffusers/text_encoder/generation_config.json",
    "configs/diffusers/transformer/config.json",
    "configs/diffusers/transformer/diffusion_pytorch_model.safetensors.index.json",
    "configs/diffusers/vae/config.json",
    "configs/original/FL2VA/model_index.json",
    "configs/original/FL2VA/audio_vae/config.json",
    "configs/original/FL2VA/audio_vae/metadata.json",
    "configs/original/FL2VA/transformer/config.json",
    "configs/original/FL2VA/transformer/model.safetensors.index.json",
    "configs/original/FL2VA/video_vae/config.json",
    "configs/original/FL2VA/video_vae/source/config.json",
    "configs/original/Ref2VA/model_index.json",
];

/// A golden folder.
pub(super) enum Assets {
    /// On disk.
    Folder(PathBuf),
    /// The repository's own, compiled in.
    Embedded,
}

impl Assets {
    /// Returns a file's bytes by its path inside the golden folder.
    pub(super) fn read(&self, file: &str) -> Result<Cow<'static, [u8]>, Error> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(checked(file)?);
                let bytes = files::read(&path, TABLE_LIMIT).map_err(|error| match error {
                    FileError::Io { doing, source } => Error::io(doing, &path)(source),
                    FileError::Problem(problem) => Error::golden(file, problem.to_string()),
                })?;
                Ok(bytes.into())
            }
            Self::Embedded => {
                let found = EMBEDDED.iter().find(|(path, _)| *path == file);
                let (_, bytes) = found.ok_or_else(|| Error::golden(file, "the file is not compiled in"))?;
                Ok(Cow::Borrowed(*bytes))
            }
        }
    }
}

/// Returns a relative path that stays inside its folder, and refuses any other.
pub(super) fn checked(path: &str) -> Result<&Path, Error> {
    let path = Path::new(path);
    let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if inside && path.components().next().is_some() {
        Ok(path)
    } else {
        Err(Error::golden(MANIFEST, format!("path {} leaves the folder", path.display())))
    }
}
