use proptest::prelude::*;

use super::*;

#[test]
fn whole_seconds_give_the_published_frames() {
    let geometry = GeometryProfile::released();
    let frames: Vec<u32> =
        (4..=15).map(|seconds| FrameCount::from_seconds(f64::from(seconds), &geometry).unwrap().get()).collect();
    assert_eq!(frames, [107, 124, 158, 175, 192, 226, 243, 277, 294, 328, 345, 362]);
}

#[test]
fn latents_and_samples_follow_from_frames() {
    for (frames, latents, audio) in [(22, 7, 37), (39, 12, 65), (124, 37, 207), (345, 102, 575)] {
        let count = FrameCount::new(frames).unwrap();
        assert_eq!(count.latent_frames(), latents);
        assert_eq!(count.audio_latents(), audio);
        assert_eq!(count.audio_samples(), audio * 800);
    }
    let seconds = FrameCount::new(362).unwrap().seconds();
    assert!((seconds - 15.083_333).abs() < 1e-6);
}

#[test]
fn durations_are_checked_before_snapping() {
    let geometry = GeometryProfile::released();
    for seconds in [3.999, 15.001, -1.0, 0.0, f64::NAN, f64::INFINITY] {
        let error = FrameCount::from_seconds(seconds, &geometry).unwrap_err();
        assert_eq!((error.min, error.max), (4.0, 15.0), "{seconds}");
    }
    // 15 s are 360 frames, which snap beyond 15 s and are accepted all the same.
    assert_eq!(FrameCount::from_seconds(15.0, &geometry).unwrap().get(), 362);
    assert_eq!(FrameCount::from_frames(96, &geometry).unwrap().get(), 107);
    assert_eq!(FrameCount::from_frames(360, &geometry).unwrap().get(), 362);
    for frames in [95, 361, 0, -24, i64::MAX, i64::MIN] {
        assert!(FrameCount::from_frames(frames, &geometry).is_err(), "{frames}");
    }
    assert_eq!(
        FrameCount::from_seconds(3.5, &geometry).unwrap_err().to_string(),
        "duration must be between 4 and 15 seconds, got 3.5"
    );
}

#[test]
fn only_the_lattice_is_stored() {
    let count: FrameCount = serde_json::from_str("124").unwrap();
    assert_eq!(serde_json::to_string(&count).unwrap(), "124");
    for json in ["123", "5", "0", "-5", "124.5", "4294967292"] {
        assert!(serde_json::from_str::<FrameCount>(json).is_err(), "{json}");
    }
}

proptest! {
    #[test]
    fn snapping_finds_the_least_lattice_point_not_below(frames in 0u32..=FrameCount::MAX.get()) {
        let snapped = FrameCount::snap_up(frames);
        prop_assert_eq!(snapped.get() % 17, 5);
        prop_assert!(snapped >= FrameCount::MIN && snapped.get() >= frames);
        prop_assert!(snapped == FrameCount::MIN || snapped.get() - frames < 17);
        prop_assert_eq!(FrameCount::snap_up(snapped.get()), snapped);
        prop_assert_eq!(FrameCount::new(snapped.get()), Ok(snapped));
        prop_assert_eq!(snapped.latent_frames() % 5, 2);
    }

    #[test]
    fn snapping_keeps_order_and_never_overflows(a in any::<u32>(), b in any::<u32>()) {
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(FrameCount::snap_up(low) <= FrameCount::snap_up(high));
        let snapped = FrameCount::snap_up(high);
        prop_assert_eq!(FrameCount::new(snapped.get()), Ok(snapped));
        prop_assert_eq!(u64::from(snapped.audio_samples()), 800 * u64::from(snapped.audio_latents()));
    }

    #[test]
    fn a_video_is_never_shorter_than_asked(seconds in 4.0f64..=15.0) {
        let frames = FrameCount::from_seconds(seconds, &GeometryProfile::released()).unwrap();
        prop_assert!(frames.seconds() + 0.5 / f64::from(FPS) >= seconds);
        prop_assert!(frames.get() <= 362);
    }
}
