use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use clapboard_media::decode::Error;
use clapboard_media::decode::image::{self, HeifTool};

use crate::bench::{Bench, IMAGE_LIMITS, NEVER, NO_CLAIM};

const PICTURE: &str = "-f lavfi -i testsrc=s=64x48:r=10:d=1 -pix_fmt yuv420p";

/// Decodes a file as each of the three kinds, all the way.
fn errors(bench: &Bench, path: &Path) -> [Option<Error>; 3] {
    let video = bench.frames(path).and_then(|(_, mut reader)| {
        while reader.next_frame(&NEVER)?.is_some() {}
        Ok(())
    });
    [bench.image(path).err(), video.err(), bench.sound(path).err()]
}

/// Decodes a file that must be refused as each of the three kinds, and never be this machine's fault.
#[track_caller]
fn refused(bench: &Bench, path: &Path) -> [String; 3] {
    errors(bench, path).map(|error| {
        let error = error.expect("such a file is refused");
        assert!(!error.is_of_machine(), "{error:?}");
        let message = error.to_string();
        assert!(!message.contains(path.to_str().unwrap()), "{message}");
        message
    })
}

#[test]
fn an_empty_file_is_said_to_be_empty() {
    let bench = Bench::new();
    assert_eq!(refused(&bench, &bench.write("empty.png", "")), ["the file is empty"; 3]);
}

#[test]
fn text_is_none_of_what_is_wanted() {
    let bench = Bench::new();
    let expected = [
        "the file is no image: its content is none of JPEG, PNG, WebP and HEIC",
        "the file is no video: its content is none of MP4 and MOV",
        "the file is no sound: its content is none of WAV, MP3 and AAC in MP4",
    ];
    assert_eq!(refused(&bench, &bench.write("notes.mp4", "dear diary\n")), expected);
    assert_eq!(refused(&bench, &bench.write("zeros.wav", [0; 100_000])), expected);
}

#[test]
fn a_format_in_the_wrong_place_is_named() {
    let bench = Bench::new();
    let video = bench.make(&format!("{PICTURE} -f mp4"), "video.png");
    let message = bench.image(&video).unwrap_err().to_string();
    assert_eq!(message, "the file is MP4, and the image must be one of JPEG, PNG, WebP and HEIC");
    let gif = bench.make(&format!("{PICTURE} -f gif"), "photo.jpg");
    let message = bench.inspect_image(&gif).unwrap_err().to_string();
    assert_eq!(message, "the file is GIF, and the image must be one of JPEG, PNG, WebP and HEIC");
}

#[test]
fn no_file_makes_another_one_be_read() {
    let bench = Bench::new();
    let secret = bench.make(&format!("{PICTURE} -f mp4"), "secret.mp4");
    let secret = secret.display();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/secret.ts", listener.local_addr().unwrap());
    let playlist = |target: &str| format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{target}\n#EXT-X-ENDLIST\n");
    let mut disguised = Vec::new();
    for target in [url.as_str(), &format!("file:{secret}")] {
        let list = playlist(target);
        disguised.extend([
            list.clone(),
            format!("ffconcat version 1.0\nfile '{target}'\n"),
            format!("file '{target}'\n"),
            format!("v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\na=control:{target}\n"),
            format!("<?xml version=\"1.0\"?><MPD><BaseURL>{target}</BaseURL></MPD>"),
            format!("<svg xmlns:xlink=\"http://www.w3.org/1999/xlink\"><image xlink:href=\"{target}\"/></svg>"),
            // Beginnings that are sniffed as something that is accepted.
            format!("ID3\x03\0\0\0\0\0\x00{list}"),
            format!("\0\0\0\x10ftypisom\0\0\0\0{list}"),
            format!("\0\0\0\x08moov{list}"),
            format!("RIFF\x10\0\0\0WAVE{list}"),
        ]);
    }
    for content in disguised {
        refused(&bench, &bench.write("list.mp4", content));
    }
    let connected = listener.accept();
    assert!(matches!(&connected, Err(error) if error.kind() == ErrorKind::WouldBlock), "{connected:?}");
}

#[test]
fn a_video_cut_short_says_so() {
    let bench = Bench::new();
    for arguments in ["-f mp4", "-movflags faststart -f mp4", "-f mov"] {
        let whole = std::fs::read(bench.make(&format!("{PICTURE} {arguments}"), "whole")).unwrap();
        for percent in [10, 50, 90] {
            let cut = bench.write("cut", &whole[..whole.len() * percent / 100]);
            let error = bench.inspect_video(&cut).unwrap_err();
            assert!(matches!(error, Error::Truncated { .. }), "{arguments} at {percent} %: {error:?}");
        }
    }
}

#[test]
fn a_video_without_frames_is_refused() {
    let bench = Bench::new();
    // The index of a video in fragments, and none of them.
    let fragments = bench.make(&format!("{PICTURE} -movflags frag_keyframe+empty_moov -f mp4"), "fragments");
    let whole = std::fs::read(fragments).unwrap();
    let moof = whole.windows(4).position(|word| word == b"moof").unwrap() - 4;
    let path = bench.write("none", &whole[..moof]);
    let [_, video, sound] = refused(&bench, &path);
    // Which of the two depends on how far ffmpeg gets.
    let undecodable = "the video cannot be decoded: it is damaged, or of a kind that is not supported";
    assert!([undecodable, "the video is empty: it holds no frame"].contains(&video.as_str()), "{video}");
    assert_eq!(sound, "the file holds no sound");
}

#[test]
fn tags_that_look_like_a_log_change_nothing() {
    let bench = Bench::new();
    let video = |title: &str, comment: &str, name: &str| {
        let path = bench.path(name);
        let title = format!("title={title}");
        let comment = format!("comment={comment}");
        let source = format!("-f lavfi -i sine=d=0.3 {PICTURE} -frames:v 3 -c:a aac -f mp4");
        let picture = source.split(' ').chain(["-metadata", &title, "-metadata", &comment]);
        let arguments = ["-v", "error", "-nostdin"].into_iter().chain(picture).map(OsStr::new);
        bench.tool("ffmpeg", &arguments.chain([path.as_os_str()]).collect::<Vec<_>>());
        path
    };
    let clock = "[Parsed_showinfo_0 @ 0x0] [info] config in time_base: 1/1, frame_rate: 1/1";
    let frame = "[Parsed_showinfo_0 @ 0x0] [info] n: 0 pts: 9000 pts_time: 9000";
    let path = video(frame, &format!("{}{clock}\n{clock}\n{frame}\n", "x".repeat(1024)), "clock.mp4");
    let (_, mut reader) = bench.frames(&path).unwrap();
    let times: Vec<_> =
        std::iter::from_fn(|| reader.next_frame(&NEVER).unwrap()).map(|frame| frame.time.as_seconds()).collect();
    assert_eq!(times, [0.0, 0.1, 0.2]);

    for fault in ["[error] No space left on device", "x\n[error] Too many open files", "[fatal] Permission denied"] {
        let path = video(fault, fault, "fault.mp4");
        let mut damaged = std::fs::read(&path).unwrap();
        damage(&mut damaged);
        let aliased = with_alias(&damaged, &format!("x\n{fault}\n"));
        for file in [damaged, aliased] {
            let [_, video, _] = refused(&bench, &bench.write("damaged", file));
            assert_eq!(video, "the video cannot be decoded: it is damaged, or of a kind that is not supported");
        }
        std::fs::remove_file(path).unwrap();
    }
}

/// Fills the media data with zeros.
fn damage(mp4: &mut [u8]) {
    let at = |kind: &[u8; 4]| mp4.windows(4).position(|word| word == kind).unwrap();
    let body = at(b"mdat") + 4..at(b"moov") - 4;
    mp4[body].fill(0);
}

/// Says that the data of the last track lies in another file at `path`, in a file whose index comes last.
fn with_alias(mp4: &[u8], path: &str) -> Vec<u8> {
    let length = (path.len() as u16).to_be_bytes();
    let record = [&b"\0\x02"[..], &length, path.as_bytes(), &[0; 1][..path.len() % 2], b"\xFF\xFF\0\0"].concat();
    let size = 12 + 150 + record.len();
    let alias = [&(size as u32).to_be_bytes()[..], b"alis\0\0\0\0", &[0; 150], &record].concat();
    let last = |kind: &[u8; 4]| mp4.windows(4).rposition(|word| word == kind).unwrap();
    let entry = last(b"url ") - 4;
    let mut aliased = [&mp4[..entry], &alias, &mp4[entry + 12..]].concat();
    for kind in [b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"] {
        let size: &mut [u8; 4] = (&mut aliased[last(kind) - 4..last(kind)]).try_into().unwrap();
        *size = (u32::from_be_bytes(*size) + (alias.len() - 12) as u32).to_be_bytes();
    }
    aliased
}

#[test]
fn nobody_waits_for_a_picture_that_is_given_up() {
    let bench = Bench::new();
    let png = bench.make(&format!("{PICTURE} -frames:v 1 -f image2pipe -c:v png"), "a.png");
    bench.tool("heif-enc", &["a.png", "-o", "a.heic"]);
    for path in [png, bench.path("a.heic")] {
        let (heif, scratch) = (HeifTool::default(), bench.path("scratch"));
        let decoded = image::decode(&heif, &scratch, &path, &NO_CLAIM, &IMAGE_LIMITS, &AtomicBool::new(true));
        assert!(matches!(decoded, Err(Error::Aborted)), "{decoded:?}");
        assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0);
    }
}

#[test]
fn numbers_that_lie_are_survived() {
    let bench = Bench::new();
    let arguments = format!("-f lavfi -i sine=d=1 {PICTURE} -c:a aac -f mp4");
    let whole = std::fs::read(bench.make(&arguments, "whole")).unwrap();
    // Time scales and durations of nothing and of everything, counts and sizes beyond the file.
    for (kind, offsets) in [
        (b"mvhd", [16, 20]),
        (b"mdhd", [16, 20]),
        (b"stts", [8, 12]),
        (b"stsz", [8, 12]),
        (b"stsc", [8, 12]),
        (b"tkhd", [24, 80]),
        (b"avcC", [4, 8]),
    ] {
        for offset in offsets {
            for value in [0, u32::MAX] {
                let mut lying = whole.clone();
                let at = lying.windows(4).position(|word| word == kind).unwrap() + offset;
                lying[at..at + 4].copy_from_slice(&value.to_be_bytes());
                let [_, video, sound] = errors(&bench, &bench.write("lying", lying));
                for error in [video, sound].into_iter().flatten() {
                    assert!(!error.is_of_machine(), "{kind:?} {offset} {value:#x}: {error:?}");
                }
            }
        }
    }
}

#[test]
fn noise_within_good_files_is_survived() {
    let bench = Bench::new();
    let files = [
        bench.make(&format!("{PICTURE} -frames:v 1 -f mjpeg"), "a"),
        bench.make(&format!("{PICTURE} -frames:v 1 -f image2pipe -c:v png"), "b"),
        bench.make(&format!("{PICTURE} -frames:v 1 -c:v libwebp -f webp"), "c"),
    ];
    // A generator of Lehmer's, so that a failure can be repeated.
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state * 48_271 % 0x7FFF_FFFF;
        state as usize % below
    };
    for path in files {
        let whole = std::fs::read(path).unwrap();
        for _ in 0..100 {
            let mut noisy = whole.clone();
            for _ in 0..4 {
                let at = random(noisy.len());
                noisy[at] = random(256) as u8;
            }
            if let Err(error) = bench.image(&bench.write("noisy", noisy)) {
                assert!(!error.is_of_machine(), "{error:?}");
            }
        }
    }
}

#[test]
fn names_are_never_options_or_protocols() {
    let bench = Bench::new();
    let video = std::fs::read(bench.make(&format!("{PICTURE} -f mp4"), "made")).unwrap();
    for name in ["-i.mp4", "-version", "concat:a|b.mp4", "http:x.mp4", "%03d.mp4", "a\nb.mp4", "'; exit 1; '.mp4"] {
        let path = bench.write(name, &video);
        let (facts, mut reader) = bench.frames(&path).unwrap();
        assert_eq!((facts.width, facts.height), (64, 48), "{name}");
        assert!(reader.next_frame(&NEVER).unwrap().is_some());
    }
}
