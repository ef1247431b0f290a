//! Files that are broken, too long, exchanged or not wanted any more.

use super::*;

#[test]
fn broken_files_are_refused_when_they_are_inspected() {
    let bench = Bench::new();
    let png = std::fs::read(halves(&bench, "640:320", "png")).unwrap();
    let jpeg = bench.make("-f lavfi -i testsrc=s=640x480:d=0.1:r=10 -frames:v 1 -f image2pipe -c:v mjpeg", "jpeg");
    let wav = bench.make(&format!("{TONE}:d=1 -f wav"), "wav");
    let video = bench.make(&format!("-f lavfi -i {} -f mp4", STAIRS.replace("RATE", "24")), "mp4");
    let heic = heic(&bench, "a.heic");
    let read = |path: &Path| std::fs::read(path).unwrap();
    let whole = [
        (png, Kind::Image),
        (read(&jpeg), Kind::Image),
        (read(&heic), Kind::Image),
        (read(&wav), Kind::Audio),
        (read(&video), Kind::Video),
    ];
    for (bytes, kind) in whole {
        let path = bench.write("whole", &bytes);
        inspect(&bench, &path, kind).unwrap();
        for length in [bytes.len() - 20, bytes.len() / 2, 20] {
            let path = bench.write("cut", &bytes[..length]);
            of_the_file(&inspect(&bench, &path, kind).unwrap_err(), &path);
        }
    }
    for kind in [Kind::Image, Kind::Video, Kind::Audio] {
        let path = bench.write("empty", "");
        assert!(matches!(inspect(&bench, &path, kind), Err(Error::Empty)));
        let path = bench.write("text", "dear diary");
        assert!(matches!(inspect(&bench, &path, kind), Err(Error::Unrecognised { .. })));
    }
    // A stream whose frames are nothing: the headers are those of a video.
    let mut hollow = read(&video);
    let data = hollow.windows(4).position(|word| word == b"mdat").unwrap() + 4;
    let end = data + u32::from_be_bytes(hollow[data - 8..data - 4].try_into().unwrap()) as usize - 8;
    hollow[data..end].fill(0);
    let path = bench.write("hollow", hollow);
    of_the_file(&inspect(&bench, &path, Kind::Video).unwrap_err(), &path);
    // Sound that is none behind pictures that are sound: samples of a codec that holds them as they are.
    let source = STAIRS.replace("RATE", "24");
    let path = bench.make(&format!("-f lavfi -i {source} {TONE}:d=1 -c:a pcm_s16be -f mov"), "pcm");
    let error = inspect(&bench, &path, Kind::Video).unwrap_err();
    assert!(matches!(error, Error::Codec { what: Kind::Audio, .. }), "{error}");
}

#[test]
fn what_is_too_long_is_not_decoded() {
    let bench = Bench::new();
    let wav = bench.make(&format!("{TONE}:s=8000:d=15.2 -f wav"), "wav");
    assert!(matches!(inspect(&bench, &wav, Kind::Audio), Err(Error::LongerThan { .. })));
    let video = bench.make("-f lavfi -i color=s=32x32:r=24:d=15.2 -preset ultrafast -f mp4", "mp4");
    assert!(matches!(inspect(&bench, &video, Kind::Video), Err(Error::LongerThan { .. })));
    let just = bench.make(&format!("{TONE}:s=8000:d=15.05 -f wav"), "just");
    assert!(matches!(inspect(&bench, &just, Kind::Audio), Ok(MediumFacts::Audio { seconds }) if seconds == 15.05));
}

#[test]
fn another_file_than_was_accepted_is_told_apart() {
    let bench = Bench::new();
    let (wide, square) = (halves(&bench, "64:32", "wide"), halves(&bench, "40:40", "square"));
    let spec = accepted(&bench, &[&wide], 22, references());
    let error = prepare_from(&bench, &spec, 0, &square, &NEVER).0.unwrap_err();
    assert!(matches!(error, ReferenceError::Shape { .. }) && !error.is_of_machine(), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("64x64 pixels") && message.contains("128x64 pixels"), "{message}");
    let error = prepare_from(&bench, &spec, 0, &bench.write("text", "dear diary"), &NEVER).0.unwrap_err();
    assert!(matches!(error, ReferenceError::Decode(Error::Unrecognised { .. })) && !error.is_of_machine(), "{error:?}");
    let error = prepare_from(&bench, &spec, 0, &bench.path("gone"), &NEVER).0.unwrap_err();
    assert!(error.is_of_machine() && !error.is_aborted() && !error.to_string().contains("gone"), "{error}");
}

#[test]
fn nobody_waits_for_what_is_given_up() {
    let bench = Bench::new();
    let arguments = format!("-f lavfi -i {} {TONE}:d=1 -c:a aac -f mp4", STAIRS.replace("RATE", "24"));
    let files = [&halves(&bench, "64:32", "picture"), &heic(&bench, "a.heic"), &bench.make(&arguments, "clip")];
    let wav = bench.make(&format!("{TONE}:d=1 -f wav"), "wav");
    let spec = accepted(&bench, &[files[0], files[1], files[2], &wav], 22, references());
    let limits = ReferenceLimits::of(&spec.geometry);
    for (index, input) in spec.inputs.iter().enumerate() {
        let path = Path::new(&input.object);
        let aborted = AtomicBool::new(true);
        let error = prepare_from(&bench, &spec, index, path, &aborted).0.unwrap_err();
        assert!(error.is_aborted() && !error.is_of_machine(), "{error:?}");
        let wanted = reference::kind(path, &NO_CLAIM).unwrap().unwrap();
        let inspected =
            reference::inspect(&tools(&bench), &bench.path("scratch"), path, &NO_CLAIM, wanted, &limits, &aborted);
        assert!(matches!(inspected, Err(Error::Aborted)), "{inspected:?}");
    }
    // Given up in the middle of a video.
    let (aborted, scratch) = (AtomicBool::new(false), bench.path("scratch"));
    let mut moves = 0;
    let mut moved = || {
        moves += 1;
        aborted.store(moves == 5, Ordering::Relaxed);
    };
    let input = &spec.inputs[2];
    let path = Path::new(OsStr::new(&input.object));
    let error = reference::prepare(&tools(&bench), &scratch, path, input, &spec, &mut moved, &aborted).unwrap_err();
    assert!(error.is_aborted(), "{error:?}");
    assert_eq!(moves, 5);
}
