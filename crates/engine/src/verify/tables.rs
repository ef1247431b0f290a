//! What needs no network: noise, schedules, tokens, tiles and layouts.

use std::path::Path;

use clapboard_h3::packing::{Anchor, Conditions, LatentGrid, ModalityTag, PackedLayout, Reference, Target};
use clapboard_h3::{Canvas, FrameCount, Sigmas};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::compare::{Tolerance, equal};
use super::golden::{Error, GoldenFile, read_json};
use super::report::{Place, Report};
use super::requests::MAX_SIDE;
use super::tolerance::{NOISE, SIGMAS};
use crate::checkpoint::Checkpoint;
use crate::hex::hex;
use crate::ops::{DType, Ops};
use crate::sampling::TorchGenerator;
use crate::text::Tokenizer;
use crate::video_vae::TileGeometry;
use crate::video_vae::tiles::split_tiles;

/// `rng.safetensors`: draws named `randn.seedS.nN`, and draws in sequence from one generator.
pub(super) fn noise(golden: &GoldenFile, place: &Place, report: &mut Report<'_>) -> Result<(), Error> {
    let names: Vec<String> = golden.names().map(str::to_owned).collect();
    let mut sequences: std::collections::BTreeMap<u64, TorchGenerator> = Default::default();
    for name in names {
        let unknown = || golden.malformed(format!("{name} names no draw"));
        let (kind, rest) = name.split_once(".seed").ok_or_else(unknown)?;
        let (seed, _) = rest.split_once('.').ok_or_else(unknown)?;
        let seed: u64 = seed.parse().map_err(|_| unknown())?;
        let (_, expected) = golden.floats(&name)?;
        // Names sort in the order of the draws: a sequence has fewer than ten.
        let ours = match kind {
            "sequence" => sequences.entry(seed).or_insert_with(|| TorchGenerator::new(seed)).normal(expected.len()),
            _ => TorchGenerator::new(seed).normal(expected.len()),
        };
        report.compared(place, &name, NOISE, NOISE.floats(&ours, expected));
    }
    Ok(())
}

/// `scheduler.safetensors`: grids named `KIND.shiftS.nP`, and one chain of Euler steps.
pub(super) fn scheduler<O: Ops>(
    ops: &O,
    golden: &GoldenFile,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let names: Vec<String> = golden.names().filter(|name| name.contains(".shift")).map(str::to_owned).collect();
    for name in names {
        let unknown = || golden.malformed(format!("{name} names no grid"));
        let (kind, rest) = name.split_once(".shift").ok_or_else(unknown)?;
        let (shift, points) = rest.split_once(".n").ok_or_else(unknown)?;
        let (shift, points) = (shift.parse().map_err(|_| unknown())?, points.parse().map_err(|_| unknown())?);
        let grid = Sigmas::shifted(points, shift).map_err(|error| golden.malformed(error.to_string()))?;
        let ours = if kind == "sigmas" { grid.values().to_vec() } else { grid.timesteps() };
        report.compared(place, &name, SIGMAS, SIGMAS.floats(&ours, golden.floats(&name)?.1));
    }

    let chain = golden.metadata("chain_shift_points")?;
    let unknown = || golden.malformed(format!("chain_shift_points {chain} is not (shift, points)"));
    let (shift, points) = chain.trim_matches(['(', ')']).split_once(", ").ok_or_else(unknown)?;
    let (shift, points) = (shift.parse().map_err(|_| unknown())?, points.parse().map_err(|_| unknown())?);
    let grid = Sigmas::shifted(points, shift).map_err(|error| golden.malformed(error.to_string()))?;
    let (shape, sample) = golden.floats("step.sample")?;
    let (_, velocity) = golden.floats("step.velocity")?;
    let failed = |error| Error::Run { case: place.case.clone(), source: Box::new(error) };
    let upload = |values: &[f32]| {
        let mut tensor = ops.alloc(DType::F32, shape.into())?;
        ops.write(values, tensor.view_mut())?;
        Ok(tensor)
    };
    let mut x = upload(sample).map_err(failed)?;
    let v = upload(velocity).map_err(failed)?;
    let sigmas = grid.values();
    for (step, timestep) in grid.timesteps().into_iter().enumerate() {
        let ratio = sigmas[step + 1] / sigmas[step];
        ops.euler_step(v.view(), timestep, ratio, x.view_mut()).map_err(failed)?;
        let stage = format!("step.out{step}");
        let tolerance = Tolerance::RelativeRms(1e-6);
        let comparison = tolerance.floats(&ops.read(x.view()).map_err(failed)?, golden.floats(&stage)?.1);
        report.compared(place, &stage, tolerance, comparison);
    }
    for stage in golden.unreached() {
        report.never_reached(place, stage);
    }
    Ok(())
}

#[derive(Deserialize)]
struct Tables {
    tokenizer: Vec<TokenizedText>,
    split_tiles: Vec<SplitTiles>,
}

#[derive(Deserialize)]
struct TokenizedText {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct SplitTiles {
    length: usize,
    tile: usize,
    min_overlap: usize,
    starts: Vec<usize>,
    sizes: Vec<usize>,
    overlaps: Vec<usize>,
}

/// `tables.json`: token ids of strings, tiles of lengths.
pub(super) fn tables(
    checkpoint: &Checkpoint,
    path: &Path,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    let tables: Tables = read_json(path)?;
    let failed = |error| Error::Run { case: place.case.clone(), source: Box::new(error) };
    let tokenizer = Tokenizer::load(&checkpoint.tokenizer_path()?, &checkpoint.text_encoder().text).map_err(failed)?;
    for (index, text) in tables.tokenizer.iter().enumerate() {
        let ours = tokenizer.encode_segment(&text.text).map_err(failed)?;
        report.compared(place, &format!("tokenizer {index}"), Tolerance::Exact, equal(&ours, &text.ids));
    }
    let step = checkpoint.video_vae().spatial_compression();
    for split in &tables.split_tiles {
        let geometry = TileGeometry { size: split.tile, min_overlap: split.min_overlap };
        if !geometry.fits(step) || !split.length.is_multiple_of(step) {
            let problem = format!("its tiles {geometry:?} of {} pixels are off the latent grid", split.length);
            return Err(Error::Malformed { path: path.to_owned(), problem });
        }
        let longest = split.length.max(split.tile);
        if longest > MAX_SIDE as usize {
            let problem = format!("its tiles {geometry:?} of {} pixels are longer than {MAX_SIDE}", split.length);
            return Err(Error::Malformed { path: path.to_owned(), problem });
        }
        let spans = split_tiles(split.length, geometry, step);
        let ours: Vec<[usize; 3]> = spans.iter().map(|span| [span.start, span.len, span.overlap_before]).collect();
        let overlaps = std::iter::once(0).chain(split.overlaps.iter().copied());
        let theirs: Vec<[usize; 3]> = split
            .starts
            .iter()
            .zip(&split.sizes)
            .zip(overlaps)
            .map(|((start, size), overlap)| [*start, *size, overlap])
            .collect();
        let stage = format!("split_tiles {} by {}/{}", split.length, split.tile, split.min_overlap);
        report.compared(place, &stage, Tolerance::Exact, equal(&ours, &theirs));
    }
    Ok(())
}

#[derive(Deserialize)]
struct GoldenLayout {
    name: String,
    num_frames: u32,
    height: u32,
    width: u32,
    text_tokens: usize,
    #[serde(default)]
    reference_latents_thw: Vec<[u32; 3]>,
    #[serde(default)]
    reference_audio_latents: Vec<u32>,
    rows: usize,
    position_ids_f64_sha256: String,
    token_tags_i64_sha256: String,
    video_indices_first_last: [u32; 2],
    audio_indices_first_last: [u32; 2],
}

/// `layout_real.json`: packed sequences of released size, by digest.
pub(super) fn layouts(path: &Path, place: &Place, report: &mut Report<'_>) -> Result<(), Error> {
    for golden in read_json::<Vec<GoldenLayout>>(path)? {
        let malformed = |problem: String| Error::Malformed { path: path.to_owned(), problem };
        let layout = golden.layout().map_err(malformed)?;
        let positions = sha256(layout.positions.as_flattened().iter().flat_map(|value| value.to_le_bytes()));
        let tags = sha256(layout.tags.iter().flat_map(|tag| i64::from(tag.index()).to_le_bytes()));
        let ends = |indices: &[u32]| [indices.first().copied(), indices.last().copied()].map(Option::unwrap_or_default);
        let name = format!("{} {}x{} {} frames", golden.name, golden.width, golden.height, golden.num_frames);
        let exact = Tolerance::Exact;
        report.compared(place, &format!("{name}: rows"), exact, equal(&[layout.rows()], &[golden.rows]));
        let comparison = equal(&[positions], &[golden.position_ids_f64_sha256]);
        report.compared(place, &format!("{name}: positions"), exact, comparison);
        report.compared(place, &format!("{name}: tags"), exact, equal(&[tags], &[golden.token_tags_i64_sha256]));
        let comparison = equal(
            &[ends(&layout.video_indices), ends(&layout.audio_indices)],
            &[golden.video_indices_first_last, golden.audio_indices_first_last],
        );
        report.compared(place, &format!("{name}: indices"), exact, comparison);
    }
    Ok(())
}

impl GoldenLayout {
    fn layout(&self) -> Result<PackedLayout, String> {
        let canvas = Canvas::new(self.width, self.height).map_err(|error| error.to_string())?;
        let frames = FrameCount::new(self.num_frames).map_err(|error| error.to_string())?;
        let references;
        let conditions = match self.name.as_str() {
            "t2va" => Conditions::None,
            "first" => Conditions::Keyframes(&[Anchor::First]),
            "last" => Conditions::Keyframes(&[Anchor::Last]),
            "first+last" => Conditions::Keyframes(&[Anchor::First, Anchor::Last]),
            other => {
                references = self.references(other.trim_start_matches("ref2va "))?;
                Conditions::References(&references)
            }
        };
        let most = PackedLayout::MAX_ROWS;
        if self.text_tokens > most {
            return Err(format!("layout {} has {} text tokens, at most {most} fit", self.name, self.text_tokens));
        }
        let text = vec![ModalityTag::Text; self.text_tokens];
        PackedLayout::new(&text, conditions, Target::new(canvas, frames)).map_err(|error| error.to_string())
    }

    /// References by the names of their kinds, which take the listed shapes in turn.
    fn references(&self, kinds: &str) -> Result<Vec<Reference>, String> {
        let mut grids = self.reference_latents_thw.iter();
        let mut sounds = self.reference_audio_latents.iter();
        let mut grid = || {
            let &[frames, height, width] = grids.next().ok_or("too few reference_latents_thw")?;
            Ok::<_, String>(LatentGrid { frames, height, width })
        };
        let mut sound = || sounds.next().copied().ok_or("too few reference_audio_latents".to_owned());
        kinds
            .split(',')
            .map(|kind| {
                Ok(match kind {
                    "image" => {
                        let LatentGrid { height, width, .. } = grid()?;
                        Reference::Image { height, width }
                    }
                    "audio" => Reference::Audio { latents: sound()? },
                    "video" => Reference::Video { video: grid()?, audio_latents: 0 },
                    "video+sound" => Reference::Video { video: grid()?, audio_latents: sound()? },
                    other => return Err(format!("unknown layout {other}")),
                })
            })
            .collect()
    }
}

fn sha256(bytes: impl Iterator<Item = u8>) -> String {
    hex(&Sha256::digest(bytes.collect::<Vec<u8>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::report::Report;

    #[test]
    fn layouts_that_no_memory_holds_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layout_real.json");
        for (width, text_tokens, expected) in [
            (32, u64::MAX, "layout t2va has 18446744073709551615 text tokens, at most 4194304 fit"),
            (4_294_967_264_u32, 0, "packed sequence must have at most 4194304 rows"),
        ] {
            let layout = serde_json::json!([{
                "name": "t2va", "num_frames": 22, "height": 32, "width": width, "text_tokens": text_tokens, "rows": 0,
                "position_ids_f64_sha256": "", "token_tags_i64_sha256": "", "video_indices_first_last": [0, 0],
                "audio_indices_first_last": [0, 0],
            }]);
            std::fs::write(&path, layout.to_string()).unwrap();
            let mut listener = |_| ();
            let error = layouts(&path, &Place::new("layout_real", None), &mut Report::new(&mut listener)).unwrap_err();
            assert!(matches!(&error, Error::Malformed { problem, .. } if problem.contains(expected)), "{error}");
        }
    }
}
