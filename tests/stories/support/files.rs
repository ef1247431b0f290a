//! Checkpoints and videos on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clapboard_engine::checkpoint::{Layout, tiny};
use clapboard_media::{Ffmpeg, probe};

/// Writes the tiny checkpoint of seed 0.
pub(crate) fn tiny_checkpoint(folder: &Path) {
    tiny::write_tiny(0, Layout::Original, folder).unwrap();
}

/// Every file below a folder, sorted, as paths relative to it.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// Checks that a file is what was asked for, down to its last packet.
pub(crate) fn assert_video(file: &Path, (width, height): (u32, u32), frames: u64) {
    let info = probe(&Ffmpeg::find().unwrap(), file).unwrap();
    let video = info.video.as_ref().expect("it has a video stream");
    let audio = info.audio.as_ref().expect("it has an audio stream");
    assert_eq!((video.codec.as_str(), video.width, video.height), ("h264", width, height));
    assert_eq!((video.fps.map(|fps| fps.to_string()).as_deref(), video.frames), (Some("24/1"), Some(frames)));
    let tags = [&video.color_range, &video.color_space, &video.color_primaries, &video.color_transfer];
    assert_eq!(tags.map(Option::as_deref), [Some("tv"), Some("bt709"), Some("bt709"), Some("bt709")]);
    assert_eq!((audio.codec.as_str(), audio.sample_rate, audio.channels), ("aac", 32_000, 2));
    let decoded =
        Command::new("ffmpeg").args(["-v", "error", "-i"]).arg(file).args(["-f", "null", "-"]).output().unwrap();
    assert!(decoded.status.success());
    assert_eq!(String::from_utf8_lossy(&decoded.stderr), "", "ffmpeg complains about {}", file.display());
}
