use proptest::prelude::*;
use safetensors::{Dtype, SafeTensors};

use super::*;

/// Grids of diffusers' own scheduler.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/scheduler.safetensors");

fn floats(golden: &SafeTensors<'_>, name: &str) -> Vec<f32> {
    let tensor = golden.tensor(name).unwrap();
    assert_eq!(tensor.dtype(), Dtype::F32);
    tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn assert_same_bits(ours: &[f32], golden: &[f32], name: &str) {
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(ours), bits(golden), "{name}");
}

#[test]
fn grids_equal_the_golden_ones_to_the_bit() {
    let bytes = std::fs::read(GOLDEN).unwrap();
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let mut compared = 0;
    for name in golden.names() {
        let Some(key) = name.strip_prefix("sigmas.shift") else {
            continue;
        };
        let (shift, points) = key.split_once(".n").unwrap();
        let sigmas = Sigmas::shifted(points.parse().unwrap(), shift.parse().unwrap()).unwrap();
        assert_same_bits(sigmas.values(), &floats(&golden, name), name);
        let name = format!("timesteps.shift{key}");
        assert_same_bits(&sigmas.timesteps(), &floats(&golden, &name), &name);
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} grids in {GOLDEN}");
}

#[test]
fn a_distilled_base_is_shifted_like_any_other() {
    let base = [1.0, 0.874, 0.749, 0.624, 0.5, 0.375, 0.25, 0.125, 0.0];
    let sigmas = Sigmas::from_base(&base, 10.0 / 3.0).unwrap();
    assert_eq!(sigmas.forwards(), 8);
    assert!((sigmas.values()[4] - 0.769_230_8).abs() < 1e-6);
    // FastH3's own levels start just below noise.
    let base = [0.999, 0.874, 0.749, 0.624, 0.5, 0.375, 0.25, 0.125, 0.0];
    assert_eq!(Sigmas::from_base(&base, 10.0 / 3.0).unwrap().forwards(), 8);
    let late = Sigmas::from_base(&[0.9, 0.5, 0.0], 1.0);
    assert_eq!(late, Err(SigmasError::Grid { points: 3 }));
}

#[test]
fn bad_points_and_shifts_are_named() {
    for points in [0, 1, 201, u32::MAX] {
        assert_eq!(Sigmas::shifted(points, 12.0), Err(SigmasError::Points(points)));
    }
    for shift in [0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert!(matches!(Sigmas::shifted(50, shift), Err(SigmasError::Shift(_))), "{shift}");
    }
    for shift in [1e-9, 1e300, 1e-300] {
        assert!(
            matches!(Sigmas::shifted(50, shift), Err(SigmasError::Degenerate { points: 50, .. })),
            "{shift}: {:?}",
            Sigmas::shifted(50, shift)
        );
    }
}

#[test]
fn neighbours_that_a_shift_makes_equal_are_collapsed() {
    let below_one = 1.0f32.next_down();
    let sigmas = Sigmas::from_base(&[1.0, below_one, 0.5, 0.0], 12.0).unwrap();
    assert_eq!(sigmas.points(), 3);
    assert_eq!(sigmas.values()[0], 1.0);
    let kept = Sigmas::from_base(&[1.0, below_one, 0.5, 0.0], 1.0).unwrap();
    assert_eq!(kept.values(), [1.0, below_one, 0.5, 0.0]);
}

#[test]
fn only_falling_grids_are_stored() {
    for json in ["[]", "[1.0]", "[1.0,0.5]", "[1.0,0.5,0.5,0.0]", "[0.5,0.0]", "[1.0,1.5,0.0]"] {
        assert!(serde_json::from_str::<Sigmas>(json).is_err(), "{json}");
    }
    assert!(serde_json::from_str::<Sigmas>("[1.0,0.25,0.0]").is_ok());
}

proptest! {
    #[test]
    fn sigmas_fall_strictly_from_one_to_zero(points in 2u32..=200, shift in 0.05f64..100.0) {
        let sigmas = Sigmas::shifted(points, shift).unwrap();
        let values = sigmas.values();
        prop_assert!((values[0] - 1.0).abs() < 1e-5);
        prop_assert_eq!(values[values.len() - 1].to_bits(), 0);
        prop_assert!(values.windows(2).all(|pair| pair[1] < pair[0]));
        prop_assert_eq!(sigmas.forwards() + 1, sigmas.points());
        let timesteps = sigmas.timesteps();
        prop_assert_eq!(timesteps.len(), sigmas.forwards());
        prop_assert!(timesteps.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn sigmas_survive_json_to_the_bit(points in 2u32..=200, shift in 0.05f64..100.0) {
        let sigmas = Sigmas::shifted(points, shift).unwrap();
        let back: Sigmas = serde_json::from_str(&serde_json::to_string(&sigmas).unwrap()).unwrap();
        let bits = |sigmas: &Sigmas| sigmas.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&back), bits(&sigmas));
    }
}
