//! What one loaded checkpoint serves.

use serde::{Deserialize, Serialize};

use crate::frames::FrameCount;
use crate::geometry::GeometryProfile;
use crate::task::{Partition, Task};

/// The facts of one checkpoint that requests are resolved against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelProfile {
    /// The name under which the API serves it.
    pub name: String,
    /// Its canvases and durations.
    pub geometry: GeometryProfile,
    /// Its own sigma shifts, used where a request names none.
    pub shifts: Shifts,
    /// The base levels of a distilled checkpoint, which also fix the number of sigma points.
    pub base_schedule: Option<Vec<f32>>,
    /// The transformer weights that are present.
    pub partitions: Vec<Partition>,
    /// What a request gets that does not say.
    pub defaults: Defaults,
}

impl ModelProfile {
    /// Returns the profile of a released checkpoint with the given partitions.
    pub fn released(name: impl Into<String>, partitions: Vec<Partition>) -> Self {
        Self {
            name: name.into(),
            geometry: GeometryProfile::released(),
            shifts: Shifts::released(),
            base_schedule: None,
            partitions,
            defaults: Defaults::released(),
        }
    }

    /// Tells whether the weights for a task are present.
    pub fn serves(&self, task: Task) -> bool {
        self.partitions.contains(&task.partition())
    }
}

/// How strongly the sigma grids are pushed towards noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shifts {
    /// The shift of the video grid.
    pub video: f64,
    /// The shift of the audio grid.
    pub audio: f64,
}

impl Shifts {
    /// Returns the released shifts: 12 for video and 3 for audio.
    pub fn released() -> Self {
        Self { video: 12.0, audio: 3.0 }
    }
}

/// What a request gets that does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// The frames of a request without a duration.
    pub num_frames: TaskFrames,
    /// The sigma points of a request without a number of steps; a base schedule has its own number.
    pub num_inference_steps: u32,
}

impl Defaults {
    /// Returns the released defaults: 209 frames (124 with references) and 50 sigma points.
    pub fn released() -> Self {
        let long = FrameCount::snap_up(209);
        Self {
            num_frames: TaskFrames { t2va: long, fl2va: long, ref2va: FrameCount::snap_up(124) },
            num_inference_steps: 50,
        }
    }
}

/// A number of frames for each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskFrames {
    /// The frames of [`Task::T2va`].
    pub t2va: FrameCount,
    /// The frames of [`Task::Fl2va`].
    pub fl2va: FrameCount,
    /// The frames of [`Task::Ref2va`].
    pub ref2va: FrameCount,
}

impl TaskFrames {
    /// Returns the same number for every task.
    pub fn all(frames: FrameCount) -> Self {
        Self { t2va: frames, fl2va: frames, ref2va: frames }
    }

    /// Returns the number for one task.
    pub fn of(&self, task: Task) -> FrameCount {
        match task {
            Task::T2va => self.t2va,
            Task::Fl2va => self.fl2va,
            Task::Ref2va => self.ref2va,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_defaults_are_on_the_frame_lattice() {
        let frames = Defaults::released().num_frames;
        assert_eq!(Task::ALL.map(|task| frames.of(task).get()), [209, 209, 124]);
    }

    #[test]
    fn a_profile_serves_the_tasks_of_its_partitions() {
        let profile = ModelProfile::released("h3", vec![Partition::Fl2va]);
        assert_eq!(Task::ALL.map(|task| profile.serves(task)), [true, true, false]);
    }
}
