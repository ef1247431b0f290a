//! The request that a plan is made for.

use clapboard_h3::packing::{LatentGrid, ModalityTag, PackedLayout, Target};
use clapboard_h3::{Canvas, FrameCount, ReferenceCounts, Sigmas, SigmasError, Task};
use serde::Serialize;

use super::conditions::PlannedConditions;
use super::sizes::ModelSizes;
use crate::dit::StepTimesteps;

/// What decides how much memory a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestShape {
    /// Its task.
    pub task: Task,
    /// Its pixels.
    pub canvas: Canvas,
    /// Its frames.
    pub num_frames: FrameCount,
    /// Tokens of the prompt itself.
    pub prompt_rows: usize,
    /// Its media: keyframes count as pictures. They are planned for in assumed sizes: keyframes of the canvas, other pictures
    /// square, videos of the canvas and as long as the target, with a soundtrack, sounds as long as the target.
    pub references: ReferenceCounts,
    /// Its sigma points; a distilled checkpoint has its own number.
    pub points: u32,
}

/// Why a request cannot be planned for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ShapeError {
    /// The weights do not serve the task.
    #[error("task {task} needs partition {}, planned is {partition}", task.partition())]
    Task {
        /// The task.
        task: Task,
        /// The partition that is planned for.
        partition: clapboard_h3::Partition,
    },
    /// The task does not take these media.
    #[error("task {task} {rule}")]
    References {
        /// The task.
        task: Task,
        /// What it takes.
        rule: &'static str,
    },
    /// There is no such schedule.
    #[error("the schedule cannot be made")]
    Schedule(#[source] SigmasError),
    /// The sequence is longer than any that is laid out.
    #[error("the sequence has {rows} rows, at most {most} can be laid out", most = PackedLayout::MAX_ROWS)]
    TooManyRows {
        /// Its rows.
        rows: usize,
    },
}

/// The sequence of a request in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SequenceShape {
    /// Rows in all.
    pub rows: usize,
    /// Text rows, those that stand for pictures and videos among them.
    pub text_rows: usize,
    /// Video rows, conditions among them.
    pub video_rows: usize,
    /// Audio rows, references among them.
    pub audio_rows: usize,
    /// Distinct timesteps that one step may hold.
    pub timesteps: usize,
    /// Runs of the transformer.
    pub forwards: usize,
}

impl RequestShape {
    /// Counts the rows of the request, and what it is conditioned on.
    pub(super) fn measure(&self, sizes: &ModelSizes) -> Result<(SequenceShape, PlannedConditions), ShapeError> {
        let task = self.task;
        if task.partition() != sizes.partition {
            return Err(ShapeError::Task { task, partition: sizes.partition });
        }
        let side = sizes.settings.geometry.reference_image_short_edge;
        let conditions = PlannedConditions::new(task, self.references, self.canvas, self.num_frames, side)?;
        let target = Target::new(self.canvas, self.num_frames);
        let [condition_video, condition_audio] = conditions.rows(target);
        let text_rows = self.prompt_rows.saturating_add(conditions.text_rows(&sizes.text.vision));
        let video_rows = condition_video + target.video.rows();
        let audio_rows = condition_audio + 2 * target.audio_latents as usize;
        let rows = text_rows.saturating_add(video_rows).saturating_add(audio_rows);
        if rows > PackedLayout::MAX_ROWS {
            return Err(ShapeError::TooManyRows { rows });
        }
        let [timesteps, forwards] = self.schedule(sizes, &conditions)?;
        Ok((SequenceShape { rows, text_rows, video_rows, audio_rows, timesteps, forwards }, conditions))
    }

    /// The most distinct timesteps of a step, and the steps, as the engine counts them.
    fn schedule(&self, sizes: &ModelSizes, conditions: &PlannedConditions) -> Result<[usize; 2], ShapeError> {
        let sigmas = |shift| match &sizes.base_schedule {
            Some(base) => Sigmas::from_base(base, shift),
            None => Sigmas::shifted(self.points, shift),
        };
        let video = sigmas(sizes.shifts.video).map_err(ShapeError::Schedule)?;
        let audio = sigmas(sizes.shifts.audio).map_err(ShapeError::Schedule)?;
        let smallest = conditions.smallest();
        let target = Target { video: LatentGrid { frames: 1, height: 2, width: 2 }, audio_latents: 1 };
        let layout = PackedLayout::new(&[ModalityTag::Text], smallest.as_conditions(), target)
            .expect("grids of two by two latents, a few times, can be laid out");
        let steps = StepTimesteps::schedule(&layout, &video.timesteps(), &audio.timesteps());
        Ok([steps.first().map_or(1, |step| step.unique.len()), steps.len()])
    }
}
