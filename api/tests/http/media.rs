//! Reference files made by ffmpeg, and bodies that carry them.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use base64::prelude::{BASE64_STANDARD, Engine};
use clapboard_media::decode::image::HeifTool;
use clapboard_media::{Ffmpeg, MediaTools};
use serde_json::Value;
use tempfile::TempDir;

/// The boundary of every form here.
pub(crate) const BOUNDARY: &str = "xyzzy";
/// The content type of every form here.
pub(crate) const FORM: &str = "multipart/form-data; boundary=xyzzy";

/// Returns the programs that read media, found once.
pub(crate) fn tools() -> Arc<MediaTools> {
    static TOOLS: OnceLock<Arc<MediaTools>> = OnceLock::new();
    let find = || Arc::new(MediaTools { ffmpeg: Ffmpeg::find().unwrap(), heif: HeifTool::default() });
    Arc::clone(TOOLS.get_or_init(find))
}

/// The files that the tests send, made once.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) png: Vec<u8>,
    pub(crate) jpeg: Vec<u8>,
    pub(crate) mp4: Vec<u8>,
    pub(crate) wav: Vec<u8>,
}

/// Returns the files.
pub(crate) fn files() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        let make = |name: &str, arguments: &[&str]| made(folder.path(), name, arguments);
        Files {
            png: make("a.png", &["-f", "lavfi", "-i", "testsrc=s=320x256", "-frames:v", "1"]),
            jpeg: make("a.jpg", &["-f", "lavfi", "-i", "testsrc=s=384x256", "-frames:v", "1"]),
            mp4: make(
                "a.mp4",
                &["-f", "lavfi", "-i", "testsrc=s=320x256:r=24:d=2.5", "-c:v", "libx264", "-pix_fmt", "yuv420p"],
            ),
            wav: make("a.wav", &["-f", "lavfi", "-i", "sine=d=2.5:r=32000"]),
        }
    })
}

/// Makes a file by ffmpeg.
pub(crate) fn made(folder: &Path, name: &str, arguments: &[&str]) -> Vec<u8> {
    let path = folder.join(name);
    let output = Command::new("ffmpeg").args(["-v", "error", "-y"]).args(arguments).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(path).unwrap()
}

/// Makes a data URL.
pub(crate) fn data_url(media_type: &str, bytes: &[u8]) -> String {
    format!("data:{media_type};base64,{}", BASE64_STANDARD.encode(bytes))
}

/// A form that is being put together.
#[derive(Debug, Default, Clone)]
pub(crate) struct Form(Vec<u8>);

impl Form {
    /// Begins with what every request needs.
    pub(crate) fn new() -> Self {
        Self::default().text("prompt", "a cat")
    }

    /// Adds a text.
    pub(crate) fn text(mut self, name: &str, text: &str) -> Self {
        let part = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n");
        self.0.extend(part.into_bytes());
        self
    }

    /// Adds a text that holds JSON.
    pub(crate) fn json(self, name: &str, value: Value) -> Self {
        self.text(name, &value.to_string())
    }

    /// Adds a file, as a client sends it that knows nothing about it.
    pub(crate) fn file(self, name: &str, bytes: &[u8]) -> Self {
        self.file_as(name, "upload", "application/octet-stream", bytes)
    }

    /// Adds a file with a name and a type.
    pub(crate) fn file_as(mut self, name: &str, file_name: &str, content_type: &str, bytes: &[u8]) -> Self {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file_name}\"\r\n\
             Content-Type: {content_type}\r\n\r\n"
        );
        self.0.extend(head.into_bytes());
        self.0.extend(bytes);
        self.0.extend(b"\r\n");
        self
    }

    /// Returns the body so far, as a client leaves it that goes away.
    pub(crate) fn open(self) -> Vec<u8> {
        self.0
    }

    /// Returns the whole body.
    pub(crate) fn body(mut self) -> Vec<u8> {
        self.0.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
        self.0
    }
}
