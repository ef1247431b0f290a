//! Sounds and soundtracks.

use super::*;

#[test]
fn sounds_of_any_number_of_channels_become_stereo() {
    let bench = Bench::new();
    let picture = halves(&bench, "64:32", "picture");
    let mono = bench.make("-f lavfi -i aevalsrc=0.5:s=22050:d=0.5 -c:a pcm_s16le -f wav", "mono");
    let stereo = bench.make("-f lavfi -i aevalsrc=0.5|-0.25:s=48000:d=2 -c:a pcm_s24le -f wav", "stereo");
    let surround =
        bench.make("-f lavfi -i aevalsrc=0.5|0|0.25|0.9|0|0.5:c=5.1:s=44100:d=0.5 -c:a pcm_s16le -f wav", "surround");
    let spec = accepted(&bench, &[&picture, &mono, &stereo, &surround], 22, references());
    let prepared = prepared(&bench, &spec);
    let sound = |index: usize| match &prepared[index] {
        PreparedReference::Audio(sound) => sound,
        other => panic!("{:?}", other.shape()),
    };
    assert_eq!([1, 2, 3].map(|index| sound(index).samples()), [16_000, 29_334, 16_000]);
    assert!(sound(1).left() == sound(1).right());
    let near = |found: f32, expected: f32| assert!((found - expected).abs() < 0.01, "{found} is not {expected}");
    near(sound(2).left()[9000], 0.5);
    near(sound(2).right()[9000], -0.25);
    // L = (FL + 0.707 FC + 0.707 BL) / 2.414, and so on the right.
    near(sound(3).left()[9000], (0.5 + 0.707 * 0.25) / 2.414);
    near(sound(3).right()[9000], (0.707 * 0.25 + 0.707 * 0.5) / 2.414);

    let source = STAIRS.replace("RATE", "24");
    for (layout, channels) in [("mono", "-ac 1"), ("5.1", "-b:a 384k -ac 6")] {
        let path = bench.make(&format!("-f lavfi -i {source} {TONE}:d=1 {channels} -c:a aac -f mp4"), "clip");
        let spec = accepted(&bench, &[&path], 22, references());
        let shape = self::prepared(&bench, &spec)[0].shape();
        assert_eq!((shape.frames, shape.audio_latents), (22, 37), "{layout}");
    }
}

#[test]
fn mp3_and_aac_have_exact_durations() {
    let bench = Bench::new();
    for (arguments, name) in [("-c:a libmp3lame -b:a 64k -f mp3", "a.mp3"), ("-c:a aac -f ipod", "a.m4a")] {
        let path = bench.make(&format!("{TONE}:s=44100:d=1 {arguments}"), name);
        let facts = inspect(&bench, &path, Kind::Audio).unwrap();
        assert!(matches!(facts, MediumFacts::Audio { seconds } if (0.999..1.06).contains(&seconds)), "{facts:?}");
        let spec = accepted(&bench, &[&halves(&bench, "64:32", "picture"), &path], 39, references());
        let shape = prepared(&bench, &spec)[1].shape();
        assert!((40..=43).contains(&shape.audio_latents), "{shape}");
    }
}

#[test]
fn a_late_soundtrack_is_within_what_was_announced() {
    let bench = Bench::new();
    let source = STAIRS.replace("RATE", "24");
    let arguments = format!("-f lavfi -i {source} -itsoffset 0.4 {TONE}:d=0.3 -c:v libx264 -bf 0 -c:a aac -f mp4");
    let path = bench.make(&arguments, "late");
    let facts = inspect(&bench, &path, Kind::Video).unwrap();
    assert!(
        matches!(facts, MediumFacts::Video { sound_seconds: Some(end), .. } if (0.65..0.8).contains(&end)),
        "{facts:?}"
    );
    let spec = accepted(&bench, &[&path], 39, references());
    let PreparedReference::Video { soundtrack: Some(sound), .. } = &prepared(&bench, &spec)[0] else { panic!() };
    assert!(sound.left()[..12_000].iter().all(|sample| sample.abs() < 0.01));
}

#[test]
fn a_soundtrack_is_heard_before_it_is_accepted() {
    let bench = Bench::new();
    let source = STAIRS.replace("RATE", "24");
    // One that ends before the first picture is none.
    let path = bench.make(
        &format!("-itsoffset 1 -f lavfi -i {source} {TONE}:d=0.5 -fps_mode passthrough -bf 0 -c:a aac -f mp4"),
        "early",
    );
    assert!(matches!(inspect(&bench, &path, Kind::Video), Ok(MediumFacts::Video { sound_seconds: None, .. })));
    let spec = accepted(&bench, &[&path], 22, references());
    assert_eq!(prepared(&bench, &spec)[0].shape().audio_latents, 0);
    // Far longer than the pictures.
    let path = bench.make(&format!("-f lavfi -i {source} {TONE}:s=8000:d=16 -c:a aac -f mp4"), "long");
    let error = inspect(&bench, &path, Kind::Video).unwrap_err();
    assert!(matches!(error, Error::LongerThan { what: Kind::Audio, .. }), "{error}");
    // Its packets are noise.
    let mut noisy =
        std::fs::read(bench.make(&format!("-f lavfi -i {source} {TONE}:d=1 -c:a aac -f mp4"), "whole")).unwrap();
    for byte in aac_packets(&noisy) {
        noisy[byte] = 0xFF;
    }
    let path = bench.write("noisy", noisy);
    of_the_file(&inspect(&bench, &path, Kind::Video).unwrap_err(), &path);
}

/// Where the bytes of the sound are in an MP4 of two tracks: in the chunks that the second `stco` lists, up to where
/// those of the first go on.
fn aac_packets(mp4: &[u8]) -> Vec<usize> {
    let word = |at: usize| u32::from_be_bytes(mp4[at..at + 4].try_into().unwrap()) as usize;
    let boxes = mp4.windows(4).enumerate().filter(|(_, kind)| kind == b"stco").map(|(at, _)| at);
    let chunks: Vec<Vec<usize>> =
        boxes.map(|at| (0..word(at + 8)).map(|index| word(at + 12 + 4 * index)).collect()).collect();
    let [pictures, sounds] = chunks.as_slice() else { panic!("{} tracks", chunks.len()) };
    let end = mp4.windows(4).position(|kind| kind == b"moov").unwrap() - 4;
    let next = |from: usize| pictures.iter().copied().filter(|at| *at > from).min().unwrap_or(end);
    sounds.iter().flat_map(|from| *from..next(*from)).collect()
}
