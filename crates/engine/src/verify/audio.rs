//! The audio encoder and the resampler alone.

use clapboard_h3::prepare::{Recording, Resampler, Sound};

use super::golden::{Error, GoldenFile};
use super::report::{Place, Report};
use super::tapped::GoldenTap;
use super::tolerance::BLOCK;
use crate::audio_vae::{AudioEncoder, AudioRows};
use crate::checkpoint::{Checkpoint, ComponentId};
use crate::control::Uninterrupted;
use crate::ops::Ops;
use crate::progress::Unwatched;
use crate::run::Run;
use crate::tap::{NoTap, Tap};

/// A loaded encoder and what it runs on.
pub(super) struct Encoder<'a, O: Ops> {
    ops: &'a O,
    encoder: AudioEncoder<O>,
}

impl<'a, O: Ops> Encoder<'a, O> {
    pub(super) fn load(ops: &'a O, checkpoint: &Checkpoint) -> Result<Self, Error> {
        let component = checkpoint.component(ComponentId::AudioVae)?;
        let encoder = AudioEncoder::load(ops, &component, checkpoint.audio_vae().clone())?;
        Ok(Self { ops, encoder })
    }

    pub(super) fn encode(&self, sound: &Sound, place: &Place, tap: Option<&mut dyn Tap>) -> Result<AudioRows, Error> {
        let mut no_tap = NoTap;
        let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: tap.unwrap_or(&mut no_tap) };
        self.encoder
            .encode(self.ops, sound, &mut run)
            .map_err(|source| Error::Run { case: place.case.clone(), source: Box::new(source) })
    }
}

/// The part `enc.*` of `audio_vae.safetensors`: the encoder, stage by stage.
pub(super) fn encoder<O: Ops>(
    ops: &O,
    checkpoint: &Checkpoint,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let (_, waveform) = golden.floats("enc.waveform")?;
    let (left, right) = waveform.split_at(waveform.len() / 2);
    let sound = Sound::new(left.to_vec(), right.to_vec()).map_err(|error| golden.malformed(error.to_string()))?;
    let rename = |name: &str| name.replacen("audio_vae.", "", 1);
    let mut tap = GoldenTap::new(golden, &rename, &|_| BLOCK);
    Encoder::load(ops, checkpoint)?.encode(&sound, place, Some(&mut tap))?;
    for (stage, tolerance, comparison) in tap.seen {
        report.compared(place, &stage, tolerance, comparison);
    }
    // The posterior's spread: its head is never run, since conditions take the mean.
    golden.find("enc.log_std");
    Ok(())
}

/// `resample.safetensors`: both channels from several rates.
pub(super) fn resample(golden: &GoldenFile, place: &Place, report: &mut Report<'_>) -> Result<(), Error> {
    let inputs: Vec<String> = golden.names().filter(|name| name.ends_with(".in")).map(str::to_owned).collect();
    for name in inputs {
        let rate = name.strip_prefix("from").and_then(|rest| rest.strip_suffix(".in"));
        let rate = rate.and_then(|rate| rate.parse().ok()).filter(|rate| Recording::RATES.contains(rate));
        let rate = rate.ok_or_else(|| golden.malformed(format!("{name} names no rate that is resampled from")))?;
        let (shape, input) = golden.floats(&name)?;
        let samples = shape.last().copied().unwrap_or(0).max(1);
        let resampler = Resampler::new(rate);
        let ours: Vec<f32> = input.chunks(samples).flat_map(|channel| resampler.resample(channel)).collect();
        let stage = format!("from{rate}.out");
        let (_, expected) = golden.floats(&stage)?;
        report.compared(place, &stage, BLOCK, BLOCK.floats(&ours, expected));
    }
    for stage in golden.unreached() {
        report.never_reached(place, stage);
    }
    Ok(())
}
