//! The programs that read and write media.

use std::path::PathBuf;

use anyhow::Context;
use clapboard_media::decode::image::HeifTool;
use clapboard_media::{Ffmpeg, MediaTools};

/// Where the programs are that write and read media files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Media")]
pub(crate) struct MediaArgs {
    /// The ffmpeg program: a path, or a name on the PATH
    #[arg(long, env = "CLAPBOARD_FFMPEG", value_name = "PROGRAM", default_value = "ffmpeg")]
    ffmpeg: PathBuf,
    /// The ffprobe program: a path, or a name on the PATH
    #[arg(long, env = "CLAPBOARD_FFPROBE", value_name = "PROGRAM", default_value = "ffprobe")]
    ffprobe: PathBuf,
    /// libheif's program, which reads HEIC: a path, or a name on the PATH [default: heif-dec or heif-convert, where needed]
    #[arg(long, env = "CLAPBOARD_HEIF_DEC", value_name = "PROGRAM")]
    heif_dec: Option<PathBuf>,
}

impl MediaArgs {
    /// Finds and checks the programs; that for HEIC is looked for when one comes, unless it is named.
    pub(crate) fn find(&self) -> anyhow::Result<MediaTools> {
        let ffmpeg = self.programs().context("media can be neither read nor written on this machine")?;
        let heif = self.heif();
        // One that is named is meant to be there.
        if self.heif_dec.is_some() {
            heif.check().context("--heif-dec cannot be used")?;
        }
        Ok(MediaTools { ffmpeg, heif })
    }

    /// The program for HEIC, wherever it is.
    pub(crate) fn heif(&self) -> HeifTool {
        self.heif_dec.as_ref().map_or_else(HeifTool::default, HeifTool::at)
    }

    /// Finds and checks the programs.
    ///
    /// Errors: those of [`Ffmpeg::at`].
    pub(crate) fn programs(&self) -> Result<Ffmpeg, clapboard_media::Error> {
        Ffmpeg::at(&self.ffmpeg, &self.ffprobe)
    }
}
