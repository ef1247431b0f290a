//! What a planned request is conditioned on: media of assumed sizes.

use clapboard_h3::packing::{Anchor, Conditions, LatentGrid, Reference, Target};
use clapboard_h3::{Canvas, FrameCount, ReferenceCounts, Task};

use super::request::ShapeError;
use crate::checkpoint::VisionConfig;
use crate::vision::sampled_frames;

/// Tokens that name a medium in the prompt, such as `<Picture 1>: ` and the ends of its vision block; a few more or less do
/// not change a plan.
const LABEL_TOKENS: usize = 8;

/// Pictures or the frames of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pixels {
    pub(super) frames: usize,
    pub(super) height: usize,
    pub(super) width: usize,
}

impl Pixels {
    /// Patches of one frame in the vision tower.
    pub(super) fn patches(&self, vision: &VisionConfig) -> usize {
        (self.height / vision.patch_size) * (self.width / vision.patch_size)
    }
}

/// The conditions of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedConditions {
    anchors: Vec<Anchor>,
    references: Vec<Reference>,
    /// What both encoders of pixels see, pictures and videos apart.
    pub(super) pictures: Vec<Pixels>,
    pub(super) videos: Vec<Pixels>,
    /// Latents of each sound.
    pub(super) sounds: Vec<usize>,
    labels: usize,
}

impl PlannedConditions {
    /// Plans `counts` media for a task: keyframes are of the canvas, reference pictures squares of `picture_side` pixels, videos of
    /// the canvas and as long as the target with a soundtrack, sounds as long as the target.
    ///
    /// Errors: [`ShapeError::References`] for media that the task does not take.
    pub(super) fn new(
        task: Task,
        counts: ReferenceCounts,
        canvas: Canvas,
        frames: FrameCount,
        picture_side: u32,
    ) -> Result<Self, ShapeError> {
        let refused = |rule| Err(ShapeError::References { task, rule });
        let target = Target::new(canvas, frames);
        let of_canvas = |frames| Pixels { frames, height: canvas.height() as usize, width: canvas.width() as usize };
        let mut planned = Self {
            anchors: Vec::new(),
            references: Vec::new(),
            pictures: Vec::new(),
            videos: Vec::new(),
            sounds: Vec::new(),
            labels: 0,
        };
        let images = counts.images as usize;
        match task {
            Task::T2va if counts.total() > 0 => return refused("takes none"),
            Task::T2va => {}
            Task::Fl2va => {
                if !(1..=2).contains(&images) || counts.total() != counts.images {
                    return refused("takes one or two pictures and nothing else");
                }
                planned.anchors = [Anchor::First, Anchor::Last][..images].to_vec();
                planned.pictures = vec![of_canvas(1); images];
                planned.labels = images;
            }
            Task::Ref2va => {
                let most = ReferenceCounts {
                    images: ReferenceCounts::MAX_IMAGES,
                    videos: ReferenceCounts::MAX_VIDEOS,
                    audios: ReferenceCounts::MAX_AUDIOS,
                };
                let within =
                    counts.images <= most.images && counts.videos <= most.videos && counts.audios <= most.audios;
                if !within || counts.total() > ReferenceCounts::MAX_TOTAL || counts.images + counts.videos == 0 {
                    return refused("takes up to 9 pictures, 3 videos and 3 sounds, 12 in all, and sounds not alone");
                }
                let side = picture_side as usize;
                planned.pictures = vec![Pixels { frames: 1, height: side, width: side }; images];
                planned.videos = vec![of_canvas(frames.get() as usize); counts.videos as usize];
                let latents = picture_side / 16;
                let picture = Reference::Image { height: latents, width: latents };
                let video = Reference::Video { video: target.video, audio_latents: target.audio_latents };
                let sound = Reference::Audio { latents: target.audio_latents };
                for (reference, count) in [(picture, counts.images), (video, counts.videos), (sound, counts.audios)] {
                    planned.references.extend(std::iter::repeat_n(reference, count as usize));
                }
                let sounds = (counts.videos + counts.audios) as usize;
                planned.sounds = vec![target.audio_latents as usize; sounds];
                planned.labels = images + 2 * planned.videos.len() + counts.audios as usize;
            }
        }
        Ok(planned)
    }

    /// The text rows that stand for media.
    pub(super) fn text_rows(&self, vision: &VisionConfig) -> usize {
        let merged = vision.spatial_merge_size * vision.spatial_merge_size;
        let pictures: usize = self.pictures.iter().map(|picture| picture.patches(vision) / merged).sum();
        let of_video = |video: &Pixels| self.pairs(video, vision) * (video.patches(vision) / merged + LABEL_TOKENS);
        pictures + self.videos.iter().map(of_video).sum::<usize>() + self.labels * LABEL_TOKENS
    }

    /// Frames of a video as the vision tower merges them in time.
    pub(super) fn pairs(&self, video: &Pixels, vision: &VisionConfig) -> usize {
        sampled_frames(video.frames).len().div_ceil(vision.temporal_patch_size)
    }

    /// Video and audio rows of the conditions.
    pub(super) fn rows(&self, target: Target) -> [usize; 2] {
        let mut rows = [self.anchors.len() * target.video.rows_per_frame(), 0];
        for reference in &self.references {
            let (video, audio_latents) = match *reference {
                Reference::Image { height, width } => (Some(LatentGrid { frames: 1, height, width }), 0),
                Reference::Audio { latents } => (None, latents),
                Reference::Video { video, audio_latents } => (Some(video), audio_latents),
            };
            rows[0] += video.map_or(0, LatentGrid::rows);
            rows[1] += 2 * audio_latents as usize;
        }
        rows
    }

    /// Conditions of the same kinds in the fewest rows: what timesteps rows have depends on their kinds alone.
    pub(super) fn smallest(&self) -> SmallestConditions {
        let grid = LatentGrid { frames: 1, height: 2, width: 2 };
        let references = self.references.iter().map(|reference| match reference {
            Reference::Image { .. } => Reference::Image { height: 2, width: 2 },
            Reference::Audio { .. } => Reference::Audio { latents: 1 },
            Reference::Video { .. } => Reference::Video { video: grid, audio_latents: 1 },
        });
        SmallestConditions { anchors: self.anchors.clone(), references: references.collect() }
    }
}

/// Conditions that can be laid out at no cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SmallestConditions {
    anchors: Vec<Anchor>,
    references: Vec<Reference>,
}

impl SmallestConditions {
    pub(super) fn as_conditions(&self) -> Conditions<'_> {
        if !self.anchors.is_empty() {
            Conditions::Keyframes(&self.anchors)
        } else if !self.references.is_empty() {
            Conditions::References(&self.references)
        } else {
            Conditions::None
        }
    }
}
