use proptest::prelude::*;
use safetensors::SafeTensors;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::timesteps::RowTimesteps;
use super::*;
use crate::canvas::Canvas;
use crate::frames::FrameCount;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");

fn read_json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(format!("{GOLDEN}/{name}")).unwrap()).unwrap()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

fn sha256(bytes: impl Iterator<Item = [u8; 8]>) -> String {
    let mut hash = Sha256::new();
    bytes.for_each(|bytes| hash.update(bytes));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the references of a release-size case from its name, such as `ref2va image,video+sound`, and its lists of
/// sizes.
fn references_of(case: &Value) -> Vec<Reference> {
    let kinds = case["name"].as_str().unwrap().strip_prefix("ref2va ").unwrap();
    let mut grids = case["reference_latents_thw"].as_array().unwrap().iter().map(|thw| LatentGrid {
        frames: number(&thw[0]),
        height: number(&thw[1]),
        width: number(&thw[2]),
    });
    let mut sounds = case["reference_audio_latents"].as_array().unwrap().iter().map(number);
    kinds
        .split(',')
        .map(|kind| match kind {
            "image" => {
                let grid = grids.next().unwrap();
                Reference::Image { height: grid.height, width: grid.width }
            }
            "audio" => Reference::Audio { latents: sounds.next().unwrap() },
            "video" | "video+sound" => Reference::Video {
                video: grids.next().unwrap(),
                audio_latents: if kind == "video" { 0 } else { sounds.next().unwrap() },
            },
            other => panic!("unknown kind {other}"),
        })
        .collect()
}

#[test]
fn release_size_layouts_equal_the_golden_ones_to_the_bit() {
    let cases = read_json("layout_real.json");
    for case in cases.as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let references;
        let conditions = match name {
            "t2va" => Conditions::None,
            "first" => Conditions::Keyframes(&[Anchor::First]),
            "last" => Conditions::Keyframes(&[Anchor::Last]),
            "first+last" => Conditions::Keyframes(&[Anchor::First, Anchor::Last]),
            _ => {
                references = references_of(case);
                Conditions::References(&references)
            }
        };
        let canvas = Canvas::new(number(&case["width"]), number(&case["height"])).unwrap();
        let frames = FrameCount::new(number(&case["num_frames"])).unwrap();
        let text = vec![ModalityTag::Text; number(&case["text_tokens"]) as usize];
        let layout = PackedLayout::new(&text, conditions, Target::new(canvas, frames)).unwrap();

        assert_eq!(layout.rows(), number(&case["rows"]) as usize, "{case}");
        for (row, position) in case["sampled_rows"].as_object().unwrap() {
            let ours = layout.positions[row.parse::<usize>().unwrap()];
            let golden: [f64; 3] = serde_json::from_value(position.clone()).unwrap();
            for (a, b) in ours.iter().zip(golden) {
                assert!((a - b).abs() < 1e-9, "{name} row {row}: {ours:?} {golden:?}");
            }
        }
        let positions = layout.positions.iter().flatten().map(|p| p.to_le_bytes());
        assert_eq!(sha256(positions), case["position_ids_f64_sha256"], "{name}");
        let tags = layout.tags.iter().map(|tag| i64::from(tag.index()).to_le_bytes());
        assert_eq!(sha256(tags), case["token_tags_i64_sha256"], "{name}");
        for (indices, key) in
            [(&layout.video_indices, "video_indices_first_last"), (&layout.audio_indices, "audio_indices_first_last")]
        {
            assert_eq!(indices.first(), Some(&number(&case[key][0])), "{name}");
            assert_eq!(indices.last(), Some(&number(&case[key][1])), "{name}");
        }
        assert_eq!(
            (layout.condition_video_rows, layout.condition_audio_rows),
            (number(&case["condition_video_rows"]) as usize, number(&case["condition_audio_rows"]) as usize),
            "{name}"
        );
    }
}

/// The tensors of one golden request.
struct Request<'a>(SafeTensors<'a>);

impl Request<'_> {
    fn data<const N: usize>(&self, name: &str) -> Vec<[u8; N]> {
        self.0.tensor(name).unwrap().data().as_chunks().0.to_vec()
    }

    fn shape(&self, name: &str) -> Vec<u32> {
        let shape = self.0.tensor(name).unwrap().shape().to_vec();
        shape.iter().map(|size| u32::try_from(*size).unwrap()).collect()
    }

    fn integers(&self, name: &str) -> Vec<u32> {
        self.data(name).into_iter().map(|bytes| u32::try_from(i64::from_le_bytes(bytes)).unwrap()).collect()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.data(name).into_iter().map(f32::from_le_bytes).collect()
    }

    fn has(&self, name: &str) -> bool {
        self.0.tensor(name).is_ok()
    }

    /// Reads the references in packed order: what the request calls each, and the sizes of what was encoded.
    fn references(&self, case: &Value) -> Vec<Reference> {
        let (mut visual, mut sound) = (0, 0);
        let mut next_grid = || {
            let shape = self.shape(&format!("condition_{visual}_latent_normalized"));
            visual += 1;
            LatentGrid { frames: shape[2], height: shape[3], width: shape[4] }
        };
        let mut next_sound = || {
            let rows = self.shape(&format!("audio_condition_{sound}_rows"))[0];
            sound += 1;
            rows / 2
        };
        case["packed_order"]
            .as_array()
            .unwrap()
            .iter()
            .map(|index| {
                let medium = &case["media"][number(index) as usize];
                match medium["kind"].as_str().unwrap() {
                    "image" => {
                        let grid = next_grid();
                        Reference::Image { height: grid.height, width: grid.width }
                    }
                    "audio" => Reference::Audio { latents: next_sound() },
                    _ => Reference::Video {
                        audio_latents: if medium["audio_tensor"].is_string() { next_sound() } else { 0 },
                        video: next_grid(),
                    },
                }
            })
            .collect()
    }
}

fn tag(index: u32) -> ModalityTag {
    match index {
        0 => ModalityTag::Video,
        1 => ModalityTag::Text,
        2 => ModalityTag::Audio,
        other => panic!("unknown tag {other}"),
    }
}

#[test]
fn request_layouts_and_timesteps_equal_the_golden_ones_to_the_bit() {
    let requests = read_json("requests.json");
    for case in requests["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let bytes = std::fs::read(format!("{GOLDEN}/{}", case["file"].as_str().unwrap())).unwrap();
        let golden = Request(SafeTensors::deserialize(&bytes).unwrap());
        let resolved = &case["resolved"];
        let canvas = Canvas::new(number(&resolved["width"]), number(&resolved["height"])).unwrap();
        let frames = FrameCount::new(number(&resolved["num_frames"])).unwrap();
        let text: Vec<ModalityTag> = golden.integers("text_token_tags").into_iter().map(tag).collect();
        let (anchors, references);
        let conditions = match case["task"].as_str().unwrap() {
            "t2va" => Conditions::None,
            "fl2va" => {
                anchors = case["packed_order"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|index| match case["media"][number(index) as usize]["role"].as_str() {
                        Some("first") => Anchor::First,
                        Some("last") => Anchor::Last,
                        other => panic!("unknown role {other:?}"),
                    })
                    .collect::<Vec<_>>();
                Conditions::Keyframes(&anchors)
            }
            _ => {
                references = golden.references(case);
                Conditions::References(&references)
            }
        };
        let layout = PackedLayout::new(&text, conditions, Target::new(canvas, frames)).unwrap();

        let positions: Vec<[u8; 8]> = layout.positions.iter().flatten().map(|p| p.to_le_bytes()).collect();
        assert!(positions == golden.data("position_ids"), "{name}: positions");
        let tags: Vec<u32> = layout.tags.iter().map(|tag| tag.index()).collect();
        assert_eq!(tags, golden.integers("token_tags"), "{name}");
        assert_eq!(layout.video_indices, golden.integers("video_indices"), "{name}");
        assert_eq!(layout.audio_indices, golden.integers("audio_indices"), "{name}");
        assert_eq!((0..layout.text_rows as u32).collect::<Vec<_>>(), golden.integers("text_indices"), "{name}");
        assert_eq!(golden.integers("num_condition_video_rows"), [layout.condition_video_rows as u32], "{name}");
        assert_eq!(golden.integers("num_condition_audio_rows"), [layout.condition_audio_rows as u32], "{name}");
        assert_eq!(layout.rows() as u32, number(&resolved["rows"]), "{name}");

        let steps = golden.floats("timesteps").into_iter().zip(golden.floats("audio_timesteps"));
        for (step, (t_video, t_audio)) in steps.enumerate() {
            let timesteps = layout.timesteps(t_video, t_audio);
            let key = |leaf: &str| format!("step{step}.{leaf}");
            assert_eq!(timesteps.unique, golden.floats(&key("unique_timesteps")), "{name} step {step}");
            assert_eq!(timesteps.indices, golden.integers(&key("timestep_indices")), "{name} step {step}");
            if step == 0 && golden.has("dit.adaln_indices") {
                assert_eq!(timesteps.modulation_rows(&layout.tags), golden.integers("dit.adaln_indices"), "{name}");
            }
        }
    }
}

#[test]
fn grids_and_keyframes_that_cannot_be_packed_are_named() {
    let target = |frames, height, width| Target { video: LatentGrid { frames, height, width }, audio_latents: 37 };
    for bad in [target(0, 4, 4), target(7, 3, 4), target(7, 4, 0)] {
        assert_eq!(PackedLayout::new(&[], Conditions::None, bad), Err(LayoutError::Grid(bad.video)));
    }
    let references = [Reference::Image { height: 5, width: 4 }];
    let error = PackedLayout::new(&[], Conditions::References(&references), target(7, 4, 4));
    assert_eq!(
        error.unwrap_err().to_string(),
        "latent grid must have frames and positive even sides, got 1 frames of 5 x 4"
    );
    for anchors in [
        &[][..],
        &[Anchor::Last, Anchor::First],
        &[Anchor::First, Anchor::First],
        &[Anchor::First, Anchor::Last, Anchor::Last],
    ] {
        assert_eq!(
            PackedLayout::new(&[], Conditions::Keyframes(anchors), target(7, 4, 4)),
            Err(LayoutError::Keyframes(anchors.to_vec()))
        );
    }
    for side in [1 << 15, 1 << 30] {
        let huge = target(u32::MAX, side, side);
        assert!(matches!(PackedLayout::new(&[], Conditions::None, huge), Err(LayoutError::TooManyRows { .. })));
    }
    let wide = target(1, 2, 2 * PackedLayout::MAX_ROWS as u32);
    let error = PackedLayout::new(&[], Conditions::None, wide).unwrap_err();
    assert!(error.to_string().starts_with("packed sequence must have at most 4194304 rows, got 419"), "{error}");
}

fn any_reference() -> impl Strategy<Value = Reference> {
    let side = || (1u32..8).prop_map(|patches| patches * 2);
    prop_oneof![
        (side(), side()).prop_map(|(height, width)| Reference::Image { height, width }),
        (1u32..60).prop_map(|latents| Reference::Audio { latents }),
        (1u32..40, side(), side(), 0u32..60).prop_map(|(frames, height, width, audio_latents)| {
            Reference::Video { video: LatentGrid { frames, height, width }, audio_latents }
        }),
    ]
}

proptest! {
    #[test]
    fn every_row_has_one_place_and_the_counts_add_up(
        text_rows in 0usize..40,
        references in prop::collection::vec(any_reference(), 0..5),
        (clips, height, width) in (1u32..6, 1u32..5, 1u32..5),
    ) {
        let canvas = Canvas::new(width * 32, height * 32).unwrap();
        let target = Target::new(canvas, FrameCount::new(17 * clips + 5).unwrap());
        let text = vec![ModalityTag::Text; text_rows];
        let layout =
            PackedLayout::new(&text, Conditions::References(&references), target).unwrap();

        let conditions = layout.condition_video_rows + layout.condition_audio_rows;
        prop_assert_eq!(layout.rows(), text_rows + conditions + target.rows());
        prop_assert_eq!(layout.tags.len(), layout.rows());
        prop_assert_eq!(layout.target_audio_rows(), 2 * target.audio_latents as usize);
        prop_assert_eq!(layout.video_indices.len() - layout.condition_video_rows, target.video.rows());

        let mut all: Vec<u32> = (0..layout.text_rows as u32)
            .chain(layout.video_indices.iter().copied())
            .chain(layout.audio_indices.iter().copied())
            .collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..layout.rows() as u32).collect::<Vec<_>>());
        prop_assert!(layout.video_indices.is_sorted() && layout.audio_indices.is_sorted());
        let is_video = |row: &u32| layout.tags[*row as usize] == ModalityTag::Video;
        prop_assert!(layout.video_indices.iter().all(is_video));
        prop_assert!(layout.positions.iter().flatten().all(|p| p.is_finite()));
    }

    #[test]
    fn each_rows_timestep_is_found_again_and_distinct_ones_ascend(
        t_video in 0f32..1.0,
        t_audio in 0f32..1.0,
        references in prop::collection::vec(any_reference(), 0..3),
    ) {
        let target = Target::new(Canvas::new(64, 32).unwrap(), FrameCount::MIN);
        let text = [ModalityTag::Text; 3];
        let layout =
            PackedLayout::new(&text, Conditions::References(&references), target).unwrap();
        let RowTimesteps { unique, indices } = layout.timesteps(t_video, t_audio);
        prop_assert!(unique.windows(2).all(|pair| pair[0] < pair[1]));
        let of = |row: u32| unique[indices[row as usize] as usize];
        prop_assert_eq!(of(0), t_video);
        let (condition, target) = layout.video_indices.split_at(layout.condition_video_rows);
        prop_assert!(condition.iter().all(|row| of(*row) == t_video.max(0.999)));
        prop_assert!(target.iter().all(|row| of(*row) == t_video));
        let (condition, target) = layout.audio_indices.split_at(layout.condition_audio_rows);
        prop_assert!(condition.iter().all(|row| of(*row) == 1.0));
        prop_assert!(target.iter().all(|row| of(*row) == t_audio));
    }
}
