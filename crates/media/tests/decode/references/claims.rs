//! Which kind of medium a file is, and what is said of it.

use super::*;

#[test]
fn kinds_are_told_by_content_and_mp4_sound_by_brand_or_claim() {
    let bench = Bench::new();
    let kind =
        |path: &Path, content_type, file_name| reference::kind(path, &Claim { content_type, file_name }).unwrap();
    let png = halves(&bench, "64:32", "a.mp4");
    assert_eq!(kind(&png, Some("video/mp4"), Some("a.mp4")), Some(Kind::Image));
    let wav = bench.make(&format!("{TONE}:d=0.3 -f wav"), "b");
    let mp3 = bench.make(&format!("{TONE}:d=0.3 -f mp3"), "c");
    assert_eq!([kind(&wav, None, None), kind(&mp3, None, None)], [Some(Kind::Audio); 2]);
    for container in ["mp4", "mov"] {
        let video = bench.make(&format!("-f lavfi -i {HALVES} -f {container}"), "d");
        assert_eq!(kind(&video, None, Some("d")), Some(Kind::Video));
    }
    let sound = bench.make(&format!("{TONE}:d=0.3 -c:a aac -f mp4"), "e");
    assert_eq!(kind(&sound, None, None), Some(Kind::Video));
    for (content_type, name) in [(Some("audio/mp4"), None), (Some("Audio/X-M4A; x"), None), (None, Some("e.M4A"))] {
        assert_eq!(kind(&sound, content_type, name), Some(Kind::Audio));
    }
    let branded = bench.make(&format!("{TONE}:d=0.3 -c:a aac -f ipod"), "f");
    assert_eq!(kind(&branded, None, None), Some(Kind::Audio));
    for other in ["dear diary", "GIF89a", "%PDF-1.4"] {
        assert_eq!(kind(&bench.write("g", other), Some("image/png"), None), None);
    }
    assert!(matches!(reference::kind(&bench.write("h", ""), &NO_CLAIM), Err(Error::Empty)));
    assert!(reference::kind(&bench.path("gone"), &NO_CLAIM).unwrap_err().is_of_machine());
    assert!(reference::kind(&bench.path("scratch"), &NO_CLAIM).unwrap_err().is_of_machine());
}

#[test]
fn claims_are_held_against_the_content() {
    let bench = Bench::new();
    let png = halves(&bench, "64:32", "picture");
    let claim = |content_type, file_name| {
        inspect_claimed(&bench, &png, &Claim { content_type, file_name }, Kind::Image)
            .map_err(|error| error.to_string())
    };
    assert!(claim(Some("image/png"), Some("a.png")).is_ok());
    assert_eq!(claim(None, Some("a.jpg")).unwrap_err(), "the file name says \".jpg\", and the content is PNG");
    assert!(claim(Some("video/mp4"), None).unwrap_err().starts_with("the content type says \"video/mp4\""));
    // What a web server says of a picture may be any picture, or nothing.
    for (content_type, agrees) in [("image/jpeg", true), ("application/force-download", true), ("video/mp4", false)] {
        let facts = inspect_claimed(&bench, &png, &Claim::served(Some(content_type)), Kind::Image);
        assert_eq!(facts.is_ok(), agrees, "{content_type}: {facts:?}");
    }
    let error = inspect(&bench, &png, Kind::Video).unwrap_err();
    assert_eq!(error.to_string(), "the file is PNG, and the video must be one of MP4 and MOV");
}
