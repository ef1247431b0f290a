//! OpenAI's own Python client, pointed at this service by its base URL alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Service, assert_video};

/// The Python of the environment that scripts/test prepares in the target folder.
fn python() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is a folder of the target folder");
    let python = target.join("venv-openai/bin/python");
    assert!(python.exists(), "the OpenAI client is missing at {}: scripts/test installs it", python.display());
    python
}

#[test]
fn it_creates_polls_and_downloads_with_a_size_alone() {
    let service = Service::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("video.mp4");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/openai_video.py");
    let run = Command::new(python()).arg(script).arg(service.url()).arg(&file).output().unwrap();
    assert!(run.status.success(), "{}\n{}", String::from_utf8_lossy(&run.stderr), service.log());
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(told.contains("queued video_gen_") && told.contains("completed 96x64 100 %"), "{told}");
    assert_video(&file, (96, 64), 22);
}
