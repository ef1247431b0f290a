//! Videos: their frames, and the sound that goes with them.

use super::*;

/// The grey levels of a clip's frames.
fn levels(prepared: &PreparedReference) -> Vec<[u8; 3]> {
    let PreparedReference::Video { clip, .. } = prepared else { panic!("{:?}", prepared.shape()) };
    (0..clip.frames()).map(|index| pixel(clip.frame(index).unwrap(), clip.width(), 16, 16)).collect()
}

#[test]
fn clips_of_every_rate_have_24_frames_a_second_and_their_sound() {
    let bench = Bench::new();
    for (rate, codec, container) in [
        ("24000/1001", "libx264", "mp4"),
        ("25/1", "libx265", "mov"),
        ("30000/1001", "libx264", "mov"),
        ("60/1", "libx265", "mp4"),
    ] {
        let fps =
            rate.split_once('/').map(|(over, under)| over.parse::<f64>().unwrap() / under.parse::<f64>().unwrap());
        let fps = fps.unwrap();
        let source = STAIRS.replace("RATE", rate);
        let tag = if codec == "libx265" { "-tag:v hvc1 -x265-params log-level=none" } else { "-preset fast" };
        let arguments =
            format!("-f lavfi -i {source} {TONE}:s=44100:d=1 -c:v {codec} -crf 8 {tag} -c:a aac -f {container}");
        let path = bench.make(&arguments, "clip");
        let MediumFacts::Video { width: 64, height: 48, fps: found, seconds, sound_seconds: Some(sounds) } =
            inspect(&bench, &path, Kind::Video).unwrap()
        else {
            panic!("{rate}");
        };
        assert!((found - fps).abs() < 1e-9 && (seconds - 1.0).abs() < 0.05 && (sounds - 1.0).abs() < 0.1);

        for (frames, kept) in [(22, 22), (39, (seconds * 24.0).round() as usize)] {
            let spec = accepted(&bench, &[&path], frames, references());
            let prepared = &prepared(&bench, &spec)[0];
            let levels = levels(prepared);
            assert_eq!(levels.len(), kept, "{rate}");
            for (slot, level) in levels.into_iter().enumerate() {
                // The last source frame that is due in this slot or before it.
                let due = |n: usize| (n as f64 * 24.0 / fps + 0.5).floor() as usize;
                let shown = (0..).take_while(|n| due(*n) <= slot).last().unwrap();
                assert_near(level, step(shown.min((seconds * fps).round() as usize - 1)), 3);
            }
            let PreparedReference::Video { soundtrack: Some(sound), .. } = prepared else { panic!("{rate}") };
            let longest = f64::from(frames) / 24.0 * 32_000.0;
            let expected = (sounds * 32_000.0).min(longest);
            assert!((sound.samples() as f64 - expected).abs() < 1100.0, "{rate}: {}", sound.samples());
            assert!(sound.samples() as f64 <= longest + 1.0);
            assert!(sound.left().iter().any(|sample| *sample > 0.4) && sound.left() == sound.right());
        }
    }
}

#[test]
fn a_video_is_read_no_further_than_the_run_lasts() {
    let bench = Bench::new();
    let path = bench.make("-f lavfi -i testsrc=s=64x48:r=30:d=14 -pix_fmt yuv420p -preset ultrafast -f mp4", "long");
    let spec = accepted(&bench, &[&path], 22, references());
    assert_eq!(spec.inputs[0].shape.frames, 22);
    let (prepared, moves) = prepare_from(&bench, &spec, 0, &path, &NEVER);
    assert_eq!(prepared.unwrap().shape().frames, 22);
    // Headers, the end of the clip, and each frame on the way to its length: 27 thirtieths, and the one after.
    assert!((24..=32).contains(&moves), "{moves}");
}

#[test]
fn a_portrait_stays_upright() {
    let bench = Bench::new();
    let source = HALVES.replace(":r=10:d=0.5", ":r=24:d=1");
    let lying = bench.make(&format!("-f lavfi -i {source} -pix_fmt yuv420p -crf 8 -f mov"), "lying");
    let path = turned(&lying, 90);
    assert!(matches!(inspect(&bench, &path, Kind::Video), Ok(MediumFacts::Video { width: 32, height: 64, .. })));
    let spec = accepted(&bench, &[&path], 22, references());
    let PreparedReference::Video { clip, soundtrack: None } = &prepared(&bench, &spec)[0] else { panic!("{spec:?}") };
    assert_eq!((clip.width(), clip.height()), (32, 64));
    assert_near(pixel(clip.frame(9).unwrap(), 32, 16, 8), RED, 8);
    assert_near(pixel(clip.frame(9).unwrap(), 32, 16, 56), BLUE, 8);
}

#[test]
fn a_variable_rate_is_followed_by_its_times() {
    let bench = Bench::new();
    // Twenty frames at 60 a second, then ten at 20 a second: 30 in 5/6 of a second.
    let source = "nullsrc=s=64x48:r=30:d=1,trim=end_frame=30,geq=lum=16+3*N:cb=128:cr=128,format=yuv420p,settb=1/600,\
                  setpts=if(lt(N\\,20)\\,10*N\\,200+30*(N-20))";
    let path = bench
        .make(&format!("-f lavfi -i {source} -fps_mode vfr -enc_time_base 1/600 -c:v libx264 -crf 8 -f mp4"), "vfr");
    let facts = inspect(&bench, &path, Kind::Video).unwrap();
    assert!(matches!(facts, MediumFacts::Video { fps, .. } if (30.0..45.0).contains(&fps)), "{facts:?}");
    let spec = accepted(&bench, &[&path], 22, references());
    let levels = levels(&prepared(&bench, &spec)[0]);
    // 4/24 s is frame 10 of the first part; 12/24 s is a sixth of a second into the second, three frames.
    for (slot, frame) in [(0, 0), (4, 10), (12, 23)] {
        assert_near(levels[slot], step(frame), 3);
    }
    assert!((19..=21).contains(&levels.len()), "{}", levels.len());
}

#[test]
fn fragments_count_as_a_video_too() {
    let bench = Bench::new();
    let arguments = "-f lavfi -i testsrc=s=64x48:r=25:d=1 -pix_fmt yuv420p -movflags frag_keyframe+empty_moov -f mp4";
    let path = bench.make(arguments, "fragments");
    let spec = accepted(&bench, &[&path], 22, references());
    assert_eq!(prepared(&bench, &spec)[0].shape().frames, 22);
}
