//! The files that a video starts from besides its prompt.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, ensure};
use clapboard_h3::prepare::{PreparedReference, ReferenceLimits};
use clapboard_h3::{GenerationSpec, GeometryProfile, Medium, Task};
use clapboard_media::decode::{Claim, Kind};
use clapboard_media::{MediaTools, reference};

/// Keyframes or references. Without any, the video is made from the prompt alone.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArgs {
    /// A picture for the first frame (fl2va): JPEG, PNG, WebP or HEIC
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "video", "audio"])]
    first_frame: Option<PathBuf>,
    /// A picture for the last frame (fl2va)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "video", "audio"])]
    last_frame: Option<PathBuf>,
    /// A picture to refer to as <Picture 1>, <Picture 2> … (ref2va); repeat the flag for more, up to 9
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// A video to refer to as <Video 1> …, with its sound if it has some (ref2va): MP4 or MOV; repeat the flag for more, up to
    /// 3
    #[arg(long, value_name = "FILE")]
    video: Vec<PathBuf>,
    /// A sound to refer to as <Audio 1> … (ref2va), counted after the soundtracks of videos: WAV, MP3 or M4A; repeat the flag
    /// for more, up to 3, and only beside a picture or a video
    #[arg(long, value_name = "FILE")]
    audio: Vec<PathBuf>,
}

/// A file with the flag that named it.
#[derive(Debug)]
struct NamedFile {
    flag: &'static str,
    kind: Kind,
    path: PathBuf,
}

/// The files as their headers tell them, in the order keyframes or images, videos, sounds.
#[derive(Debug)]
pub(crate) struct Inputs {
    files: Vec<NamedFile>,
    /// What the request says of them; each object is the number of its file.
    pub(crate) media: Vec<Medium>,
    /// Where the keyframes stand.
    pub(crate) frame_indices: Option<Vec<i64>>,
    /// The task that goes with them.
    pub(crate) task: Task,
}

impl InputArgs {
    /// Returns the task that goes with the flags that were given.
    fn task(&self) -> Task {
        if self.first_frame.is_some() || self.last_frame.is_some() {
            Task::Fl2va
        } else if self.image.is_empty() && self.video.is_empty() && self.audio.is_empty() {
            Task::T2va
        } else {
            Task::Ref2va
        }
    }

    /// Checks a task that was asked for by name against the flags. A name that is none passes: it is refused with the
    /// request.
    ///
    /// Errors: a sentence that names the flags which go with the task.
    pub(crate) fn check_task(&self, named: Option<&str>) -> anyhow::Result<()> {
        let Some(task) = named.and_then(|name| name.parse::<Task>().ok()) else { return Ok(()) };
        let goes_with = match task {
            Task::T2va => "no inputs",
            Task::Fl2va => "--first-frame, --last-frame or both, and nothing else",
            Task::Ref2va => "--image, --video and --audio",
        };
        ensure!(self.task() == task, "--task {task} goes with {goes_with}");
        Ok(())
    }

    /// Looks at the files.
    ///
    /// Errors: a sentence that names the flag and the file, and what is wrong with it.
    pub(crate) fn inspect(
        self,
        tools: &MediaTools,
        geometry: &GeometryProfile,
        aborted: &AtomicBool,
    ) -> anyhow::Result<Inputs> {
        let task = self.task();
        let frame_indices = match (&self.first_frame, &self.last_frame) {
            (None, None) => None,
            (Some(_), None) => Some(vec![0]),
            (None, Some(_)) => Some(vec![-1]),
            (Some(_), Some(_)) => Some(vec![0, -1]),
        };
        let named = |flag, kind, paths: Vec<PathBuf>| paths.into_iter().map(move |path| NamedFile { flag, kind, path });
        let files: Vec<NamedFile> = named("--first-frame", Kind::Image, self.first_frame.into_iter().collect())
            .chain(named("--last-frame", Kind::Image, self.last_frame.into_iter().collect()))
            .chain(named("--image", Kind::Image, self.image))
            .chain(named("--video", Kind::Video, self.video))
            .chain(named("--audio", Kind::Audio, self.audio))
            .collect();
        let scratch = tempfile::tempdir().context("could not make a folder for unfinished files")?;
        let limits = ReferenceLimits::of(geometry);
        let look = |(index, file)| medium(index, file, tools, scratch.path(), &limits, aborted);
        let media = files.iter().enumerate().map(look);
        let media = media.collect::<anyhow::Result<_>>()?;
        Ok(Inputs { files, media, frame_indices, task })
    }
}

impl Inputs {
    /// Decodes the files and brings them to what the run of `spec` takes, in the spec's order.
    ///
    /// Errors: a sentence that names the flag and the file.
    pub(crate) fn prepare(
        &self,
        spec: &GenerationSpec,
        tools: &MediaTools,
        aborted: &AtomicBool,
    ) -> anyhow::Result<Vec<PreparedReference>> {
        let scratch = tempfile::tempdir().context("could not make a folder for unfinished files")?;
        let prepare = |input: &clapboard_h3::Input| {
            let index: usize = input.object.parse().expect("the object is the number of its file");
            let file = &self.files[index];
            reference::prepare(tools, scratch.path(), &file.path, input, spec, &mut || (), aborted)
                .with_context(|| file.to_string())
        };
        spec.inputs.iter().map(prepare).collect()
    }
}

impl std::fmt::Display for NamedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.flag, self.path.display())
    }
}

fn medium(
    index: usize,
    file: &NamedFile,
    tools: &MediaTools,
    scratch: &Path,
    limits: &ReferenceLimits,
    aborted: &AtomicBool,
) -> anyhow::Result<Medium> {
    let is_url = file.path.to_str().is_some_and(|path| path.starts_with("http://") || path.starts_with("https://"));
    ensure!(!is_url, "{file}: a file is needed here, not a URL");
    let metadata = fs::metadata(&file.path).with_context(|| file.to_string())?;
    ensure!(metadata.is_file(), "{file}: not a file");
    let size_bytes = metadata.len();
    let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let claim = Claim { content_type: None, file_name: name.as_deref() };
    let facts = reference::inspect(tools, scratch, &file.path, &claim, file.kind, limits, aborted)
        .with_context(|| file.to_string())?;
    Ok(Medium { field: file.to_string(), object: index.to_string(), size_bytes, facts })
}
