//! From sent files by way of a resolved request to what the model takes.

use std::ffi::OsStr;
mod broken;
mod claims;
mod clips;
mod pictures;
mod sounds;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_h3::prepare::{Picture, PreparedReference, ReferenceLimits, fit_keyframe, fit_reference_picture};
use clapboard_h3::{
    Defaults, FrameCount, GenerationSpec, GeometryProfile, InputRole, Medium, MediumFacts, ModelProfile, Partition,
    Recipe, TaskFrames, VideoRequest,
};
use clapboard_media::MediaTools;
use clapboard_media::decode::image::HeifTool;
use clapboard_media::decode::{Claim, Error, Kind};
use clapboard_media::reference::{self, ReferenceError};

use crate::bench::{Bench, NEVER, NO_CLAIM, assert_near, pixel};
use crate::images::{heic, with_orientation};
use crate::videos::{HALVES, STAIRS, step, turned};

const TONE: &str = "-f lavfi -i aevalsrc=0.5*sin(2*PI*440*t)";
const RED: [u8; 3] = [200, 40, 60];
const BLUE: [u8; 3] = [20, 90, 180];

/// A checkpoint of 32 pixels and half a second, whose clips have `frames` frames.
fn profile(frames: u32) -> ModelProfile {
    let num_frames = TaskFrames::all(FrameCount::new(frames).unwrap());
    ModelProfile {
        geometry: GeometryProfile {
            canvas_short_edge: 32,
            canvas_max_pixels: 2048,
            reference_image_short_edge: 64,
            min_duration_seconds: 0.5,
            ..GeometryProfile::released()
        },
        defaults: Defaults { num_frames, num_inference_steps: 2 },
        ..ModelProfile::released("tiny", Partition::ALL.to_vec())
    }
}

fn tools(bench: &Bench) -> MediaTools {
    MediaTools { ffmpeg: bench.ffmpeg.clone(), heif: HeifTool::default() }
}

/// Inspects a file under the limits of the tiny checkpoint; nothing may be left in the scratch folder.
fn inspect_claimed(bench: &Bench, path: &Path, claim: &Claim<'_>, wanted: Kind) -> Result<MediumFacts, Error> {
    let (limits, scratch) = (ReferenceLimits::of(&profile(22).geometry), bench.path("scratch"));
    let facts = reference::inspect(&tools(bench), &scratch, path, claim, wanted, &limits, &NEVER);
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0);
    facts
}

fn inspect(bench: &Bench, path: &Path, wanted: Kind) -> Result<MediumFacts, Error> {
    inspect_claimed(bench, path, &NO_CLAIM, wanted)
}

/// The run of `frames` frames that files of their own kinds are accepted for; each input's object is its path.
fn accepted(bench: &Bench, files: &[&PathBuf], frames: u32, request: VideoRequest) -> GenerationSpec {
    let media = files.iter().map(|path| {
        let wanted = reference::kind(path, &NO_CLAIM).unwrap().unwrap();
        let facts = inspect(bench, path, wanted).unwrap();
        let size_bytes = std::fs::metadata(path).unwrap().len();
        Medium { field: "input_references".to_owned(), object: path.display().to_string(), size_bytes, facts }
    });
    let request = VideoRequest { prompt: Some("a fox".to_owned()), media: media.collect(), ..request };
    request.resolve(&profile(frames), 1).unwrap()
}

/// Prepares the `index`th input from the file at `path`; also says how often it moved.
fn prepare_from(
    bench: &Bench,
    spec: &GenerationSpec,
    index: usize,
    path: &Path,
    aborted: &AtomicBool,
) -> (Result<PreparedReference, ReferenceError>, usize) {
    let (scratch, mut moves) = (bench.path("scratch"), 0);
    let prepared =
        reference::prepare(&tools(bench), &scratch, path, &spec.inputs[index], spec, &mut || moves += 1, aborted);
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0);
    (prepared, moves)
}

/// Prepares every input of a run from its own file.
fn prepared(bench: &Bench, spec: &GenerationSpec) -> Vec<PreparedReference> {
    let prepare = |(index, input): (usize, &clapboard_h3::Input)| {
        let (prepared, moves) = prepare_from(bench, spec, index, Path::new(&input.object), &NEVER);
        assert!(moves > 0);
        let prepared = prepared.unwrap();
        assert!(input.shape.admits(&prepared.shape()) && prepared.kind() == input.role.kind());
        prepared
    };
    spec.inputs.iter().enumerate().map(prepare).collect()
}

fn references() -> VideoRequest {
    VideoRequest { task: Some("ref2va".to_owned()), ..VideoRequest::default() }
}

/// A PNG of the two halves.
fn halves(bench: &Bench, size: &str, name: &str) -> PathBuf {
    bench.make(&format!("-f lavfi -i {HALVES},scale={size}:flags=neighbor -frames:v 1 -f image2pipe -c:v png"), name)
}

fn picture(bench: &Bench, path: &Path) -> Picture {
    let decoded = bench.image(path).unwrap();
    Picture::new(decoded.width, decoded.height, decoded.rgb).unwrap()
}

/// Whatever is wrong with a file, its sender is told without a path, and the machine is not to blame.
#[track_caller]
fn of_the_file(error: &Error, path: &Path) {
    assert!(!error.is_of_machine() && !error.to_string().contains(path.to_str().unwrap()), "{error:?}");
}
