//! The video object, as clients know it from OpenAI and vLLM-Omni.

use std::collections::BTreeMap;

use clapboard_h3::{FPS, GenerationSpec};
use clapboard_jobs::store::FARTHEST_PLACE;
use clapboard_jobs::{Causes, Job, JobState, Progress, RunReport, Status};
use serde::Serialize;
use utoipa::ToSchema;

use crate::query::Listed;

/// Where a video stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VideoStatus {
    /// It waits for a worker.
    Queued,
    /// A worker has begun it.
    InProgress,
    /// It can be downloaded.
    Completed,
    /// It ended without a result; also when it was cancelled.
    Failed,
}

impl From<Status> for VideoStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Queued => Self::Queued,
            Status::InProgress => Self::InProgress,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
        }
    }
}

/// Why a video has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct VideoError {
    /// `generation_failed`, `worker_lost`, `start_deadline_exceeded`, `cancelled`, `input_fetch_failed`,
    /// `moderation_blocked`, `storage_failed` or `internal_error`.
    pub code: &'static str,
    /// What happened, for people.
    pub message: String,
}

/// What a stage of a run took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct StageMetrics {
    /// Its seconds.
    pub duration_s: f64,
}

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum PlaceInQueue {
    /// Its number: 1 is the next, 0 is claimed by a worker and not begun; at most 1000.
    Place(u64),
    /// It is farther behind.
    Farther(Farther),
}

/// Stands for the places that are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub enum Farther {
    /// Beyond [`FARTHEST_PLACE`].
    #[serde(rename = "1000+")]
    Beyond,
}

impl PlaceInQueue {
    /// A place beyond [`FARTHEST_PLACE`].
    pub(crate) const FARTHER: Self = Self::Farther(Farther::Beyond);
}

impl From<u64> for PlaceInQueue {
    fn from(place: u64) -> Self {
        if place > FARTHEST_PLACE { Self::FARTHER } else { Self::Place(place) }
    }
}

/// A video and the job that makes it. Every key is always there; what is not known is null.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Video {
    /// Its id: opaque, at present `video_gen_` and 32 hex digits.
    pub id: String,
    /// Always `video`.
    pub object: &'static str,
    /// The model by the name that the request used.
    pub model: String,
    /// Where it stands.
    pub status: VideoStatus,
    /// How much is done, in percent; 100 only when it is completed.
    #[schema(minimum = 0, maximum = 100)]
    pub progress: u8,
    /// When the job was made, in seconds since 1970.
    pub created_at: i64,
    /// When a worker really began its present or last attempt.
    #[schema(required = true)]
    pub started_at: Option<i64>,
    /// When it ended, with or without a result.
    #[schema(required = true)]
    pub completed_at: Option<i64>,
    /// When its file is deleted, or was; null while there is none, and where files are kept as long as their videos.
    #[schema(required = true)]
    pub expires_at: Option<i64>,
    /// Its canvas in pixels, `WIDTHxHEIGHT`, after every rule.
    #[schema(required = true)]
    pub size: Option<String>,
    /// The whole seconds of `duration_s`, at least 1, as a text.
    #[schema(required = true)]
    pub seconds: Option<String>,
    /// The prompt.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// The video that it varies; that one may be deleted.
    #[schema(required = true)]
    pub remixed_from_video_id: Option<String>,
    /// Why it has no result.
    #[schema(required = true)]
    pub error: Option<VideoError>,
    /// The encoding policy: `default`, `high` or `lossless`.
    #[schema(required = true)]
    pub quality: Option<&'static str>,
    /// Always `video/mp4`.
    pub media_type: &'static str,
    /// The name of the file, while there is one.
    #[schema(required = true)]
    pub file_name: Option<String>,
    /// Seconds from the begin of the run to its stored result.
    #[schema(required = true)]
    pub inference_time_s: Option<f64>,
    /// Frames per second.
    pub fps: u32,
    /// Its number of frames: the asked duration rounded up to the model's lattice.
    #[schema(required = true)]
    pub num_frames: Option<u32>,
    /// Its duration in seconds, exactly `num_frames / fps`.
    #[schema(required = true)]
    pub duration_s: Option<f64>,
    /// For each stage of the run its `duration_s`, once it is completed; only where the request said `return_stage_metrics`.
    #[schema(required = true)]
    pub metrics: Option<BTreeMap<String, StageMetrics>>,
    /// Seconds per stage of the run, once it is completed.
    pub stage_durations: BTreeMap<String, f64>,
    /// The most memory that the run's process held, in MiB; 0 until it is completed.
    pub peak_memory_mb: f64,
    /// Always null.
    #[schema(value_type = Option<Object>, required = true)]
    pub action: (),
    /// The seed that was taken.
    #[schema(required = true)]
    pub seed: Option<i64>,
    /// The task that runs.
    #[schema(required = true)]
    pub task: Option<&'static str>,
    /// How often the transformer runs: one less than `num_inference_steps`.
    #[schema(required = true)]
    pub forwards: Option<u64>,
    /// Its place in the queue: 1 is the next, and 0 is claimed by a worker and not begun; `1000+` beyond 1000. Null when it does
    /// not wait, where its place cannot be told now, and in lists.
    #[schema(required = true)]
    pub queue_position: Option<PlaceInQueue>,
    /// How many attempts count so far, the present one included.
    pub attempt: u32,
    /// How urgent it is: `normal` or `low`.
    pub priority: &'static str,
    /// Until when it has to have begun, in seconds since 1970, else it fails; null for whenever, and once it has begun.
    #[schema(required = true)]
    pub start_by: Option<i64>,
    /// What the request attached to it.
    pub metadata: BTreeMap<String, String>,
    /// For whom it was made, as the request said.
    #[schema(required = true)]
    pub user: Option<String>,
}

impl Listed for Video {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Video {
    /// Describes a job by its row alone, which leaves out its place in the queue.
    pub(crate) fn of(job: &Job) -> Self {
        let spec = spec(job);
        let spec = spec.as_ref();
        let status = job.status();
        let completed = job.state == JobState::Completed;
        let report = job.report.clone().filter(|_| completed);
        Self {
            id: job.id.to_string(),
            object: "video",
            model: job.model.clone(),
            status: status.into(),
            progress: progress(status, &job.progress),
            created_at: job.created_at.unix_seconds(),
            started_at: job.begun_at.map(|at| at.unix_seconds()),
            completed_at: job.finished_at.map(|at| at.unix_seconds()),
            expires_at: job.result_expires_at.map(|at| at.unix_seconds()),
            size: spec.map(|spec| spec.canvas.to_string()),
            seconds: spec.map(|spec| whole_seconds(spec.num_frames.seconds())),
            prompt: spec.map(|spec| spec.prompt.clone()),
            remixed_from_video_id: job.remixed_from.map(|original| original.to_string()),
            error: job
                .error
                .as_ref()
                .map(|error| VideoError { code: error.code.as_str(), message: error.message.clone() }),
            quality: spec.map(|spec| spec.quality.as_str()),
            media_type: "video/mp4",
            file_name: job.result.as_ref().map(|_| format!("{}.mp4", job.id)),
            inference_time_s: report.as_ref().map(|report| report.inference_s),
            fps: FPS,
            num_frames: spec.map(|spec| spec.num_frames.get()),
            duration_s: spec.map(|spec| spec.num_frames.seconds()),
            metrics: report.as_ref().filter(|_| job.told.stage_metrics).map(metrics),
            peak_memory_mb: report.as_ref().map_or(0.0, |report| mebibytes(report.peak_memory_bytes)),
            stage_durations: report.map(|report| report.stage_durations_s).unwrap_or_default(),
            action: (),
            // Negative seeds are kept by their two's complement.
            seed: spec.map(|spec| spec.seed.cast_signed()),
            task: spec.map(|spec| spec.task.as_str()),
            forwards: spec.map(|spec| spec.forwards() as u64),
            queue_position: None,
            attempt: job.attempt,
            priority: job.priority.as_str(),
            start_by: job.start_by.map(|at| at.unix_seconds()),
            metadata: job.metadata.pairs().clone(),
            user: job.told.user.clone(),
        }
    }
}

fn metrics(report: &RunReport) -> BTreeMap<String, StageMetrics> {
    let stages = report.stage_durations_s.iter();
    stages.map(|(stage, duration_s)| (stage.clone(), StageMetrics { duration_s: *duration_s })).collect()
}

/// Decodes the job's spec; one of a newer program leaves its keys null.
fn spec(job: &Job) -> Option<GenerationSpec> {
    job.spec
        .decode()
        .inspect_err(
            |error| tracing::warn!(job.id = %job.id, error = %Causes(error), "could not read the spec of a job"),
        )
        .ok()
}

fn progress(status: Status, progress: &Progress) -> u8 {
    match status {
        // A job that waits for its next attempt shows how far that one will begin, if the store knows.
        Status::Queued | Status::InProgress | Status::Failed => progress.percent.min(Progress::MAX_PERCENT_UNSTORED),
        Status::Completed => 100,
    }
}

/// Cuts a duration to whole seconds, which gives back what a request in whole seconds asked for: the frame lattice adds
/// less than one second.
fn whole_seconds(seconds: f64) -> String {
    format!("{:.0}", seconds.floor().max(1.0))
}

/// Converts bytes to the unit of `peak_memory_mb`.
pub(super) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use clapboard_h3::{FrameCount, GeometryProfile};

    use super::*;

    #[test]
    fn the_seconds_are_those_that_were_asked_for() {
        for asked in 4..=15 {
            let frames = FrameCount::from_seconds(f64::from(asked), &GeometryProfile::released()).unwrap();
            assert_eq!(whole_seconds(frames.seconds()), asked.to_string());
        }
        assert_eq!(whole_seconds(FrameCount::snap_up(22).seconds()), "1");
    }

    #[test]
    fn a_place_is_exact_as_far_as_places_are_counted() {
        let told = |place: u64| serde_json::to_value(PlaceInQueue::from(place)).unwrap();
        assert_eq!((told(0), told(FARTHEST_PLACE)), (0.into(), FARTHEST_PLACE.into()));
        assert_eq!(told(FARTHEST_PLACE + 1), format!("{FARTHEST_PLACE}+"));
    }

    #[test]
    fn a_hundred_percent_are_for_completed_videos_alone() {
        let done = Progress { percent: 100, ..Progress::START };
        assert_eq!(progress(Status::Queued, &done), 99);
        assert_eq!(progress(Status::Queued, &Progress::START), 0);
        assert_eq!(progress(Status::InProgress, &done), 99);
        assert_eq!(progress(Status::Failed, &done), 99);
        assert_eq!(progress(Status::Completed, &Progress::START), 100);
    }
}
