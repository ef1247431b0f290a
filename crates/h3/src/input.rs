//! The media that a stored run starts from besides its prompt.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::packing::Anchor;
use crate::prepare::{ReferenceKind, packed_order};
use crate::recipe::Recipe;
use crate::references::ReferenceCounts;
use crate::task::Task;

/// What a medium is to its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    /// The picture of the first frame.
    FirstFrame,
    /// The picture of the last frame.
    LastFrame,
    /// A picture to refer to.
    Image,
    /// A video to refer to, with its soundtrack if it has one.
    Video,
    /// A sound to refer to.
    Audio,
}

impl InputRole {
    /// Returns where a keyframe stands; none for a reference.
    pub fn anchor(self) -> Option<Anchor> {
        match self {
            Self::FirstFrame => Some(Anchor::First),
            Self::LastFrame => Some(Anchor::Last),
            Self::Image | Self::Video | Self::Audio => None,
        }
    }

    /// Returns what kind of medium it is.
    pub fn kind(self) -> ReferenceKind {
        match self {
            Self::FirstFrame | Self::LastFrame | Self::Image => ReferenceKind::Image,
            Self::Video => ReferenceKind::Video,
            Self::Audio => ReferenceKind::Audio,
        }
    }
}

/// How large a medium is once it is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct InputShape {
    /// The width in pixels; 0 for a sound.
    pub width: u32,
    /// The height in pixels; 0 for a sound.
    pub height: u32,
    /// Frames at 24 per second, at most; 1 for a picture, 0 for a sound.
    pub frames: u32,
    /// Latents per channel of its sound, at most; 0 without one.
    pub audio_latents: u32,
}

impl InputShape {
    /// Pixels of a patch along each side.
    const PATCH_PIXELS: u32 = 32;
    /// Frames of a clip that the video VAE encodes by itself, and the latent frames it becomes.
    const CLIP: (u32, u32) = (17, 5);
    /// Patches along each side of the smallest square picture that the vision tower takes: 256 pixels. Smaller ones are
    /// scaled up for it.
    const LEAST_SIDE: f64 = 8.0;
    /// More rows than the presentation puts around a picture, a sound or two frames of a video.
    const LABEL_ROWS: usize = 24;

    /// Returns a bound on the rows that the medium adds to the packed sequence: its latents, and what the text encoder
    /// sees of it.
    pub fn rows_bound(&self) -> usize {
        let patches = (self.width.div_ceil(Self::PATCH_PIXELS) as usize)
            .saturating_mul(self.height.div_ceil(Self::PATCH_PIXELS) as usize);
        let latent_frames = match self.frames {
            0 | 1 => self.frames,
            frames => frames.div_ceil(Self::CLIP.0) * Self::CLIP.1,
        };
        // One frame of twelve is looked at, two together make one block.
        let blocks = match self.frames {
            0 | 1 => self.frames,
            frames => frames.div_ceil(24) + 1,
        };
        let seen =
            if self.frames == 0 { 0 } else { patches.max(self.scaled_up_patches()).saturating_add(Self::LABEL_ROWS) };
        (latent_frames as usize)
            .saturating_mul(patches)
            .saturating_add((blocks as usize).saturating_mul(seen))
            .saturating_add((self.audio_latents as usize).saturating_mul(2))
            .saturating_add(Self::LABEL_ROWS)
    }

    /// Returns a bound on the patches of a picture that is scaled up for the vision tower: its sides keep their ratio,
    /// and each is rounded up to a whole patch.
    fn scaled_up_patches(&self) -> usize {
        let (width, height) = (f64::from(self.width.max(1)), f64::from(self.height.max(1)));
        let stretch = (width / height).sqrt();
        let patches = (Self::LEAST_SIDE * stretch + 1.0) * (Self::LEAST_SIDE / stretch + 1.0);
        patches.ceil() as usize
    }

    /// Tells whether a medium of shape `prepared` is what this shape announces: of the same sides, with no more frames
    /// and no more sound.
    pub fn admits(&self, prepared: &Self) -> bool {
        (self.width, self.height) == (prepared.width, prepared.height)
            && prepared.frames <= self.frames
            && prepared.audio_latents <= self.audio_latents
    }

    /// Tells whether a medium of this role can have this shape.
    fn fits(&self, role: InputRole) -> bool {
        let has_sides = self.width > 0 && self.height > 0;
        match role.kind() {
            ReferenceKind::Image => has_sides && self.frames == 1 && self.audio_latents == 0,
            ReferenceKind::Video => has_sides && self.frames > 0,
            ReferenceKind::Audio => (self.width, self.height, self.frames) == (0, 0, 0) && self.audio_latents > 0,
        }
    }
}

impl fmt::Display for InputShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, frames, audio_latents } = self;
        write!(f, "{width}x{height} pixels, {frames} frames and {audio_latents} audio latents")
    }
}

/// One medium of a stored run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What it is to the run.
    pub role: InputRole,
    /// The name of the object that holds its bytes; whoever runs the specification knows where that is.
    pub object: String,
    /// How large it is once it is prepared.
    pub shape: InputShape,
}

/// Says why media do not go with a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputsError {
    /// The keyframes are not the first, the last, or the first and the last; or there are some where none belong.
    #[error("{task} cannot run with keyframes {keyframes:?}")]
    Keyframes {
        /// The task.
        task: Task,
        /// The keyframes found.
        keyframes: Vec<Anchor>,
    },
    /// There are too few, too many, or some of another kind.
    #[error("{task} cannot run with these inputs: {reason}")]
    Counts {
        /// The task.
        task: Task,
        /// The rule that they break.
        reason: String,
    },
    /// They do not stand in the order in which the recipe packs them.
    #[error("recipe {recipe} does not pack inputs in the order {kinds:?}")]
    Order {
        /// The recipe.
        recipe: Recipe,
        /// The kinds in the order found.
        kinds: Vec<ReferenceKind>,
    },
    /// One has a shape that no medium of its role has.
    #[error("input {index} is {role:?} and cannot have {shape}")]
    Shape {
        /// Its place among the inputs, from 0.
        index: usize,
        /// Its role.
        role: InputRole,
        /// Its shape.
        shape: InputShape,
    },
}

/// Checks that `inputs` go with `task`, stand in the order in which `recipe` packs them, and have shapes that go with
/// their roles.
///
/// Errors: [`InputsError`].
pub(crate) fn check(task: Task, recipe: Recipe, inputs: &[Input]) -> Result<(), InputsError> {
    let keyframes: Vec<Anchor> = inputs.iter().filter_map(|input| input.role.anchor()).collect();
    let fits = match task {
        Task::Fl2va => {
            keyframes.len() == inputs.len()
                && matches!(keyframes[..], [Anchor::First] | [Anchor::Last] | [Anchor::First, Anchor::Last])
        }
        Task::T2va | Task::Ref2va => keyframes.is_empty(),
    };
    if !fits {
        return Err(InputsError::Keyframes { task, keyframes });
    }
    let kinds: Vec<ReferenceKind> = inputs.iter().map(|input| input.role.kind()).collect();
    let count = |kind| kinds.iter().filter(|found| **found == kind).count() as u32;
    let counts = ReferenceCounts {
        images: count(ReferenceKind::Image),
        videos: count(ReferenceKind::Video),
        audios: count(ReferenceKind::Audio),
    };
    counts.check(task).map_err(|invalid| InputsError::Counts { task, reason: invalid.message })?;
    if !packed_order(&kinds, recipe).is_sorted() {
        return Err(InputsError::Order { recipe, kinds });
    }
    match inputs.iter().enumerate().find(|(_, input)| !input.shape.fits(input.role)) {
        Some((index, Input { role, shape, .. })) => Err(InputsError::Shape { index, role: *role, shape: *shape }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PICTURE: InputShape = InputShape { width: 64, height: 32, frames: 1, audio_latents: 0 };
    const CLIP: InputShape = InputShape { frames: 30, audio_latents: 50, ..PICTURE };
    const SOUND: InputShape = InputShape { width: 0, height: 0, frames: 0, audio_latents: 50 };

    fn input(role: InputRole) -> Input {
        let shape = match role.kind() {
            ReferenceKind::Image => PICTURE,
            ReferenceKind::Video => CLIP,
            ReferenceKind::Audio => SOUND,
        };
        Input { role, object: "an/object".to_owned(), shape }
    }

    fn checked(task: Task, recipe: Recipe, roles: &[InputRole]) -> Result<(), InputsError> {
        check(task, recipe, &roles.iter().map(|role| input(*role)).collect::<Vec<_>>())
    }

    fn fits(task: Task, roles: &[InputRole]) -> bool {
        checked(task, Recipe::Release, roles).is_ok()
    }

    #[test]
    fn inputs_stand_in_the_order_of_their_recipe() {
        use InputRole::{Audio, Image, Video};
        for roles in [[Audio, Image, Video], [Image, Audio, Video], [Video, Image, Image]] {
            let error = checked(Task::Ref2va, Recipe::Release, &roles).unwrap_err();
            assert!(matches!(error, InputsError::Order { recipe: Recipe::Release, .. }), "{roles:?}: {error}");
            assert_eq!(checked(Task::Ref2va, Recipe::Diffusers, &roles), Ok(()));
        }
        assert_eq!(checked(Task::Ref2va, Recipe::Release, &[Image, Image, Video, Audio]), Ok(()));
    }

    #[test]
    fn shapes_are_those_of_their_roles() {
        let refused = |task, role, shape| {
            let other = input(InputRole::Image);
            let inputs = [Input { role, shape, ..input(role) }, other];
            let count = if task == Task::Fl2va { 1 } else { 2 };
            match check(task, Recipe::Diffusers, &inputs[..count]) {
                Err(InputsError::Shape { index: 0, .. }) => true,
                Ok(()) => false,
                Err(other) => panic!("{other}"),
            }
        };
        let flat = InputShape { height: 0, ..PICTURE };
        for shape in
            [SOUND, CLIP, flat, InputShape { frames: 0, ..PICTURE }, InputShape { audio_latents: 1, ..PICTURE }]
        {
            assert!(refused(Task::Fl2va, InputRole::LastFrame, shape), "{shape}");
            assert!(refused(Task::Ref2va, InputRole::Image, shape), "{shape}");
        }
        for shape in [SOUND, InputShape { width: 0, ..CLIP }, InputShape { frames: 0, ..CLIP }] {
            assert!(refused(Task::Ref2va, InputRole::Video, shape), "{shape}");
        }
        for shape in [PICTURE, CLIP, InputShape { audio_latents: 0, ..SOUND }, InputShape { frames: 1, ..SOUND }] {
            assert!(refused(Task::Ref2va, InputRole::Audio, shape), "{shape}");
        }
        assert!(!refused(Task::Ref2va, InputRole::Video, InputShape { audio_latents: 0, ..CLIP }), "it may be silent");
    }

    #[test]
    fn a_shape_admits_what_is_no_larger() {
        assert!(CLIP.admits(&CLIP) && CLIP.admits(&InputShape { frames: 22, audio_latents: 0, ..CLIP }));
        for larger in [
            InputShape { frames: 31, ..CLIP },
            InputShape { audio_latents: 51, ..CLIP },
            InputShape { width: 32, ..CLIP },
            InputShape { height: 64, ..CLIP },
        ] {
            assert!(!CLIP.admits(&larger), "{larger}");
        }
    }

    #[test]
    fn keyframes_are_first_last_or_both_in_order() {
        use InputRole::{Audio, FirstFrame, Image, LastFrame, Video};
        for roles in [&[FirstFrame][..], &[LastFrame], &[FirstFrame, LastFrame]] {
            assert!(fits(Task::Fl2va, roles), "{roles:?}");
            assert!(!fits(Task::T2va, roles) && !fits(Task::Ref2va, roles), "{roles:?}");
        }
        for roles in [&[][..], &[LastFrame, FirstFrame], &[FirstFrame, FirstFrame], &[FirstFrame, Image], &[Image]] {
            assert!(!fits(Task::Fl2va, roles), "{roles:?}");
        }
        assert!(fits(Task::T2va, &[]) && fits(Task::Ref2va, &[Image, Video, Audio]));
        assert!(!fits(Task::Ref2va, &[]) && !fits(Task::Ref2va, &[Audio]) && !fits(Task::T2va, &[Image]));
    }

    #[test]
    fn the_bound_counts_latents_and_what_the_text_encoder_sees() {
        let picture = InputShape { width: 2048, height: 2048, frames: 1, audio_latents: 0 };
        assert!((2 * 4096..2 * 4096 + 100).contains(&picture.rows_bound()));
        // Fifteen seconds: 107 latent frames of 1008 patches, and sixteen blocks of as many.
        let clip = InputShape { width: 1344, height: 768, frames: 360, audio_latents: 600 };
        assert!((107 * 1008 + 15 * 1008 + 1200..130_000).contains(&clip.rows_bound()), "{}", clip.rows_bound());
        let sound = InputShape { width: 0, height: 0, frames: 0, audio_latents: 600 };
        assert!((1200..1300).contains(&sound.rows_bound()));
        let absurd = InputShape { width: u32::MAX, height: u32::MAX, frames: u32::MAX, audio_latents: u32::MAX };
        assert_eq!(absurd.rows_bound(), usize::MAX);
        // A picture of 3 x 1 patches is looked at as one of 14 x 5.
        let wide = InputShape { width: 96, height: 32, frames: 1, audio_latents: 0 };
        assert!((70 + 3..150).contains(&wide.rows_bound()), "{}", wide.rows_bound());
    }
}
