//! A media store, and programs, that take as long as a test says.

use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::blob::{Blob, BlobError, BlobKey, ObjectInfo, Opened, Put};
use clapboard_media::decode::image::HeifTool;
use clapboard_media::{Ffmpeg, MediaTools};
use tokio::sync::Semaphore;

/// A real media store that stores nothing before it is told to.
pub(crate) struct SlowBlob {
    inner: Arc<dyn Blob>,
    asked: Semaphore,
    going: Semaphore,
}

impl SlowBlob {
    /// Stands before `inner`.
    pub(crate) fn over(inner: Arc<dyn Blob>) -> Self {
        Self { inner, asked: Semaphore::new(0), going: Semaphore::new(0) }
    }

    /// Waits until something is to be stored.
    pub(crate) async fn asked(&self) {
        self.asked.acquire().await.unwrap().forget();
    }

    /// Lets one thing be stored.
    pub(crate) fn go_on(&self) {
        self.going.add_permits(1);
    }
}

#[async_trait]
impl Blob for SlowBlob {
    async fn put_file(&self, key: &BlobKey, file: &Path, moved: &(dyn Fn() + Send + Sync)) -> Result<Put, BlobError> {
        self.asked.add_permits(1);
        self.going.acquire().await.unwrap().forget();
        self.inner.put_file(key, file, moved).await
    }

    async fn head(&self, key: &BlobKey) -> Result<Option<ObjectInfo>, BlobError> {
        self.inner.head(key).await
    }

    async fn open(&self, key: &BlobKey, range: Option<Range<u64>>) -> Result<Option<Opened>, BlobError> {
        self.inner.open(key, range).await
    }

    async fn link(&self, key: &BlobKey, life: Duration, file_name: &str) -> Result<Option<String>, BlobError> {
        self.inner.link(key, life, file_name).await
    }

    async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        self.inner.delete(key).await
    }

    async fn list(&self, prefix: &str, after: Option<&BlobKey>, limit: usize) -> Result<Vec<ObjectInfo>, BlobError> {
        self.inner.list(prefix, after, limit).await
    }
}

/// Programs of which the one that reads a video's headers never ends.
pub(crate) struct HangingTools {
    pub(crate) tools: Arc<MediaTools>,
    pid: PathBuf,
}

impl HangingTools {
    /// Puts the program into a folder.
    pub(crate) fn within(folder: &Path) -> Self {
        let (ffprobe, pid) = (folder.join("ffprobe"), folder.join("pid"));
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *-version*) exec ffprobe \"$@\";; esac\necho $$ > {0}.new\nmv {0}.new {0}\nexec sleep 3600\n",
            pid.display()
        );
        std::fs::write(&ffprobe, script).unwrap();
        std::fs::set_permissions(&ffprobe, std::fs::Permissions::from_mode(0o755)).unwrap();
        let ffmpeg = Ffmpeg::at("ffmpeg", ffprobe).unwrap();
        Self { tools: Arc::new(MediaTools { ffmpeg, heif: HeifTool::default() }), pid }
    }

    /// Returns the process that hangs, once there is one.
    pub(crate) fn process(&self) -> Option<PathBuf> {
        let pid = std::fs::read_to_string(&self.pid).ok()?;
        Some(Path::new("/proc").join(pid.trim()))
    }
}
