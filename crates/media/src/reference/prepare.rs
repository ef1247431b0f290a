//! A sent file as the run takes it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_h3::prepare::{
    Clip, ClipBuilder, FitError, Picture, PreparedReference, Recording, ReferenceLimits, Sound, fit_keyframe,
    fit_reference_picture, fit_sound,
};
use clapboard_h3::{GenerationSpec, Input, InputRole};

use super::{ReferenceError, audio_limits, image_limits, video_limits};
use crate::decode::video::{ConstantRate, FrameReader, VideoFacts, VideoLimits};
use crate::decode::{Claim, Error, audio, image, video};
use crate::tools::MediaTools;
use crate::{FPS, FrameRate};

/// Nothing is claimed of a file that was accepted.
const NO_CLAIM: Claim<'_> = Claim { content_type: None, file_name: None };
/// The rate of a clip.
const CLIP_RATE: FrameRate = FrameRate { numerator: FPS, denominator: 1 };

/// Decodes the file of `input` and brings it to what the run of `spec` takes; calls `moved` after every step: headers, a
/// picture, a frame or a sound. No step waits for a program longer than [`LONGEST_STEP`](crate::decode::LONGEST_STEP).
///
/// A video is read no further than the run's length needs. HEIC needs a folder `scratch` to write to; nothing is left
/// there.
///
/// Memory: that of [`inspect`](super::inspect()), and the prepared medium itself; frames are resized as they come.
///
/// Errors: what is wrong with the file; [`ReferenceError::Shape`] when it is not what was announced;
/// [`ReferenceError::is_aborted`] soon after `aborted` was set; [`ReferenceError::is_of_machine`].
pub fn prepare(
    tools: &MediaTools,
    scratch: &Path,
    path: &Path,
    input: &Input,
    spec: &GenerationSpec,
    moved: &mut dyn FnMut(),
    aborted: &AtomicBool,
) -> Result<PreparedReference, ReferenceError> {
    let work = Work { tools, scratch, path, spec, limits: ReferenceLimits::of(&spec.geometry), aborted };
    let prepared = match input.role {
        InputRole::FirstFrame => PreparedReference::Image(work.keyframe(0, moved)?),
        InputRole::LastFrame => {
            let second = spec.inputs.iter().any(|input| input.role == InputRole::FirstFrame);
            PreparedReference::Image(work.keyframe(usize::from(second), moved)?)
        }
        InputRole::Image => PreparedReference::Image(work.reference_picture(moved)?),
        InputRole::Video => {
            let (clip, soundtrack) = work.video(moved)?;
            PreparedReference::Video { clip, soundtrack }
        }
        InputRole::Audio => PreparedReference::Audio(work.sound(moved)?),
    };
    ReferenceError::check(input.shape, prepared)
}

/// What preparing one file works with.
struct Work<'a> {
    tools: &'a MediaTools,
    scratch: &'a Path,
    path: &'a Path,
    spec: &'a GenerationSpec,
    limits: ReferenceLimits,
    aborted: &'a AtomicBool,
}

impl Work<'_> {
    /// Between two steps that cannot be interrupted: stops when the result is not wanted any more.
    fn check_wanted(&self) -> Result<(), Error> {
        if self.aborted.load(Ordering::Relaxed) { Err(Error::Aborted) } else { Ok(()) }
    }

    /// The keyframe that is the `position`th of the request, fitted to the canvas.
    fn keyframe(&self, position: usize, moved: &mut dyn FnMut()) -> Result<Picture, ReferenceError> {
        let picture = self.picture(moved)?;
        let fitted = fit_keyframe(&picture, self.spec.canvas, position, self.spec.recipe)?;
        moved();
        Ok(fitted)
    }

    fn reference_picture(&self, moved: &mut dyn FnMut()) -> Result<Picture, ReferenceError> {
        let picture = self.picture(moved)?;
        let fitted = fit_reference_picture(&picture, &self.spec.geometry)?;
        moved();
        Ok(fitted)
    }

    fn picture(&self, moved: &mut dyn FnMut()) -> Result<Picture, ReferenceError> {
        let Self { tools, scratch, path, aborted, .. } = *self;
        let decoded = image::decode(&tools.heif, scratch, path, &NO_CLAIM, &image_limits(&self.limits), aborted)?;
        self.check_wanted()?;
        moved();
        Ok(Picture::new(decoded.width, decoded.height, decoded.rgb).map_err(FitError::Media)?)
    }

    fn video(&self, moved: &mut dyn FnMut()) -> Result<(Clip, Option<Sound>), ReferenceError> {
        let Self { tools, path, aborted, .. } = *self;
        let limits = video_limits(&self.limits);
        let facts = video::inspect(&tools.ffmpeg, path, &NO_CLAIM, &limits, aborted)?;
        moved();
        let clip = self.clip(&facts, &limits, moved)?;
        moved();
        let soundtrack = audio::decode_soundtrack(&tools.ffmpeg, path, &facts, limits.longest, aborted)?;
        let soundtrack = match soundtrack {
            Some(sound) => Some(self.fit(sound, moved)?),
            None => None,
        };
        Ok((clip, soundtrack))
    }

    /// The frames of a video at 24 a second, as many as the run's length takes.
    fn clip(&self, facts: &VideoFacts, limits: &VideoLimits, moved: &mut dyn FnMut()) -> Result<Clip, ReferenceError> {
        let spec = self.spec;
        let mut builder = ClipBuilder::new(facts.width, facts.height, &spec.geometry, spec.num_frames)?;
        let reader = FrameReader::start(&self.tools.ffmpeg, self.path, facts, limits)?;
        let mut frames = ConstantRate::new(reader, CLIP_RATE);
        while let Some((frame, times)) = frames.next_frame(moved, self.aborted)? {
            if !builder.push_times(&frame.rgb, times as usize)? {
                break;
            }
        }
        Ok(builder.finish()?)
    }

    fn sound(&self, moved: &mut dyn FnMut()) -> Result<Sound, ReferenceError> {
        let Self { tools, path, aborted, .. } = *self;
        let limits = audio_limits(&self.limits);
        let facts = audio::inspect(&tools.ffmpeg, path, &NO_CLAIM, &limits, aborted)?;
        moved();
        let sound = audio::decode(&tools.ffmpeg, path, &facts, limits.longest, aborted)?;
        self.fit(sound, moved)
    }

    /// Cuts and resamples a decoded sound.
    fn fit(&self, sound: audio::Sound, moved: &mut dyn FnMut()) -> Result<Sound, ReferenceError> {
        self.check_wanted()?;
        moved();
        let recording = Recording::new(sound.sample_rate, sound.channels)?;
        let fitted = fit_sound(recording, self.spec.num_frames, self.spec.recipe)?;
        moved();
        Ok(fitted)
    }
}
