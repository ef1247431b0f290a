//! The programs that read and write media.

use crate::decode::image::HeifTool;
use crate::ffmpeg::Ffmpeg;

/// The programs that read and write media.
#[derive(Debug, Clone)]
pub struct MediaTools {
    /// Reads video and sound, writes MP4.
    pub ffmpeg: Ffmpeg,
    /// Reads HEIC, where it is installed.
    pub heif: HeifTool,
}
