//! What a request is conditioned on besides its prompt: from prepared media to latents.

use std::sync::Arc;

use clapboard_h3::packing::{Anchor, Conditions, LatentGrid, Reference};
use clapboard_h3::prepare::{PreparedReference, Sound, vae_frames};
use clapboard_h3::{GenerationSpec, Task};

use crate::audio_vae::{self, AudioEncoder};
use crate::checkpoint::{AudioVaeConfig, Checkpoint, VideoVaeConfig};
use crate::components::Components;
use crate::generate::{GenerateError, network};
use crate::load::{LoadError, Loading};
use crate::ops::Ops;
use crate::progress::ShareProgress;
use crate::run::{Run, RunError};
use crate::staging::Staging;
use crate::video_vae::clips::ClipGeometry;
use crate::video_vae::{self, ConditionLatents, FrameValues, TileGeometry, VideoEncoder, VideoFrames};
use crate::weights::Staged;

/// What turns media into conditions, and the sizes by which their places in a sequence are known beforehand.
pub(crate) struct ConditionEncoders<O: Ops> {
    video: VideoVaeConfig,
    audio: AudioVaeConfig,
    encoders: Staged<O, Encoders<O>>,
}

/// The encoders of both VAEs.
struct Encoders<O: Ops> {
    video: VideoEncoder<O>,
    audio: AudioEncoder<O>,
}

/// The conditions of a request as its sequence knows them, before anything is computed.
pub(crate) enum ConditionPlan {
    /// T2VA.
    None,
    /// FL2VA.
    Keyframes(Vec<Anchor>),
    /// Ref2VA, in packed order.
    References(Vec<Reference>),
}

impl ConditionPlan {
    /// Borrows it in the form that a layout takes.
    pub(crate) fn as_conditions(&self) -> Conditions<'_> {
        match self {
            Self::None => Conditions::None,
            Self::Keyframes(anchors) => Conditions::Keyframes(anchors),
            Self::References(references) => Conditions::References(references),
        }
    }
}

/// Encoded conditions in packed order.
#[derive(Debug, Default)]
pub(crate) struct EncodedConditions {
    /// Keyframes, pictures and videos.
    pub(crate) visual: Vec<ConditionLatents>,
    /// Rows of all sounds, `[rows, channels]`.
    pub(crate) sounds: Vec<f32>,
}

impl<O: Ops + 'static> ConditionEncoders<O>
where
    O::Buffer: 'static,
{
    pub(crate) fn load(
        ops: &O,
        checkpoint: &Checkpoint,
        components: &Components,
        tiles: TileGeometry,
        loading: Loading<'_>,
    ) -> Result<Self, LoadError> {
        let (video, audio) = (checkpoint.video_vae().clone(), checkpoint.audio_vae().clone());
        let stored = (Arc::clone(&components.video_vae), Arc::clone(&components.audio_vae));
        let sizes = (video.clone(), audio.clone());
        let load = move |ops: &O, loading: Loading<'_>| {
            Ok(Encoders {
                video: loading.then(VideoEncoder::load(ops, &stored.0, sizes.0.clone(), tiles))?,
                audio: loading.then(AudioEncoder::load(ops, &stored.1, sizes.1.clone()))?,
            })
        };
        Ok(Self { video, audio, encoders: Staged::load(ops, loading, load)? })
    }

    /// Plans the conditions of `spec` from its media, which stand in packed order.
    ///
    /// Errors: [`GenerateError::Media`] when there are other or larger media than the specification names, or for a
    /// keyframe that is not on the target's canvas.
    pub(crate) fn plan(
        &self,
        spec: &GenerationSpec,
        media: &[PreparedReference],
    ) -> Result<ConditionPlan, GenerateError> {
        let refused = |why| Err(GenerateError::Media(why));
        if spec.inputs.len() != media.len() {
            return refused(format!("it has {} inputs, given were {}", spec.inputs.len(), media.len()));
        }
        for (index, (input, medium)) in spec.inputs.iter().zip(media).enumerate() {
            let (role, kind, shape) = (input.role, medium.kind(), medium.shape());
            if role.kind() != kind {
                return refused(format!("input {index} is {role:?}, given was {kind:?}"));
            }
            if !input.shape.admits(&shape) {
                return refused(format!("input {index} may have {}, given were {shape}", input.shape));
            }
        }
        match spec.task {
            Task::T2va => Ok(ConditionPlan::None),
            Task::Fl2va => {
                let canvas = (spec.canvas.width(), spec.canvas.height());
                if !spec.inputs.iter().all(|input| (input.shape.width, input.shape.height) == canvas) {
                    return refused(format!("a keyframe is not of {} pixels", spec.canvas));
                }
                Ok(ConditionPlan::Keyframes(spec.inputs.iter().filter_map(|input| input.role.anchor()).collect()))
            }
            Task::Ref2va => Ok(ConditionPlan::References(media.iter().map(|medium| self.reference(medium)).collect())),
        }
    }

    fn reference(&self, medium: &PreparedReference) -> Reference {
        let side = |pixels: u32| pixels / self.video.spatial_compression() as u32;
        let latents = |sound: &Sound| sound.samples().div_ceil(self.audio.hop_length()) as u32;
        match medium {
            PreparedReference::Image(picture) => {
                Reference::Image { height: side(picture.height()), width: side(picture.width()) }
            }
            PreparedReference::Video { clip, soundtrack } => {
                let frames = ClipGeometry::of(&self.video).latent_frames(vae_frames(clip.frames())) as u32;
                let video = LatentGrid { frames, height: side(clip.height()), width: side(clip.width()) };
                Reference::Video { video, audio_latents: soundtrack.as_ref().map_or(0, latents) }
            }
            PreparedReference::Audio(sound) => Reference::Audio { latents: latents(sound) },
        }
    }

    /// Encodes media in packed order.
    ///
    /// Errors: [`GenerateError`] when the encoders cannot be brought in, a network fails or the run is stopped.
    pub(crate) fn encode(
        &self,
        ops: &O,
        media: &[PreparedReference],
        staging: Staging,
        run: &mut Run<'_>,
    ) -> Result<EncodedConditions, GenerateError> {
        if media.is_empty() {
            return Ok(EncodedConditions::default());
        }
        staging.enter(&self.encoders, ops, run)?.encode(ops, media, run)
    }
}

impl<O: Ops> Encoders<O>
where
    O::Buffer: 'static,
{
    fn encode(
        &self,
        ops: &O,
        media: &[PreparedReference],
        run: &mut Run<'_>,
    ) -> Result<EncodedConditions, GenerateError> {
        let mut encoded = EncodedConditions::default();
        let mut audio_index = 0;
        let total = media.iter().map(networks).sum();
        let mut shares = (0..total).map(|index| ShareProgress { progress: run.progress, index, total });
        let mut next_share = || shares.next().expect("every network of every medium was counted");
        for medium in media {
            let (frames, sound) = match medium {
                PreparedReference::Image(picture) => {
                    (Some(frames_of(picture.rgb(), 1, picture.height(), picture.width())), None)
                }
                PreparedReference::Video { clip, soundtrack } => {
                    let frames = vae_frames(clip.frames());
                    (Some(frames_of(clip.leading(frames), frames, clip.height(), clip.width())), soundtrack.as_ref())
                }
                PreparedReference::Audio(sound) => (None, Some(sound)),
            };
            if let Some(frames) = frames {
                let share = next_share();
                let condition = self.encode_visual(ops, frames, encoded.visual.len(), &mut run.sharing(&share))?;
                encoded.visual.push(condition);
            }
            if let Some(sound) = sound {
                let share = next_share();
                let rows = self.encode_audio(ops, sound, audio_index, &mut run.sharing(&share))?;
                encoded.sounds.extend(rows);
                audio_index += 1;
            }
        }
        Ok(encoded)
    }

    /// Encodes the `index`-th sound that is heard, to its rows.
    fn encode_audio(&self, ops: &O, sound: &Sound, index: usize, run: &mut Run<'_>) -> Result<Vec<f32>, GenerateError> {
        let rows = self.audio.encode(ops, sound, run).map_err(|error| match error {
            audio_vae::EncodeError::Run(error) => error.into(),
            other => network(other),
        })?;
        let shape = [2 * rows.latents, rows.values.len() / (2 * rows.latents)];
        run.see(&format!("audio_condition_{index}_rows"), &shape, &rows.values)?;
        Ok(rows.values)
    }

    /// Encodes a picture or the frames of a video, the `index`-th that is seen.
    fn encode_visual(
        &self,
        ops: &O,
        frames: VideoFrames<'_>,
        index: usize,
        run: &mut Run<'_>,
    ) -> Result<ConditionLatents, GenerateError> {
        let failed = |error| match error {
            video_vae::EncodeError::Run(error) => error.into(),
            other => network(other),
        };
        let moments = self.video.moments(ops, frames, run).map_err(failed)?;
        let shape = moments.shape().dims();
        run.see(&format!("vae_encode_{index}_mean"), &shape, moments.mean())?;
        run.see(&format!("vae_encode_{index}_logvar"), &shape, moments.logvar())?;
        // Drawn for those alone who look: the condition draws its own.
        let noise = || Ok(video_vae::posterior_noise(moments.shape()));
        run.tap.see(&format!("condition_{index}_posterior_noise"), &shape, &noise).map_err(RunError::from)?;
        let condition = moments.condition(self.video.config()).map_err(failed)?;
        run.see(&format!("condition_{index}_latent_normalized"), &shape, &condition.values)?;
        Ok(condition)
    }
}

/// Counts the networks that a medium goes through.
fn networks(medium: &PreparedReference) -> usize {
    match medium {
        PreparedReference::Video { soundtrack: Some(_), .. } => 2,
        PreparedReference::Image(_)
        | PreparedReference::Video { soundtrack: None, .. }
        | PreparedReference::Audio(_) => 1,
    }
}

fn frames_of(rgb: &[u8], frames: usize, height: u32, width: u32) -> VideoFrames<'_> {
    VideoFrames { values: FrameValues::Rgb8(rgb), frames, height: height as usize, width: width as usize }
}
