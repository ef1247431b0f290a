//! The limits of references: what is just within is taken and what is just beyond is not, on both routes that make videos.

use std::process::Command;
use std::time::Duration;

use clapboard_api::Options;
use serde_json::json;
use tempfile::TempDir;

use crate::app::TestApp;
use crate::media::{FORM, Form, data_url, files, made};

/// A service with all weights whose synchronous route answers as soon as it has taken a request.
async fn app() -> TestApp {
    TestApp::start_all(Options { sync_timeout: Duration::from_millis(1), ..Options::default() }).await
}

const H264: [&str; 6] = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"];

const ROUTES: [&str; 2] = ["/v1/videos", "/v1/videos/sync"];

/// Sends a form to both routes, and looks whether it is taken, or refused with a code and field.
async fn check(app: &TestApp, what: &str, form: Form, refusal: Option<(&str, &str)>) {
    for route in ROUTES {
        let before = app.jobs().await.len();
        let reply = app.post(route, FORM, form.clone().body()).await;
        match refusal {
            Some((code, param)) => {
                assert_eq!(reply.status.as_u16(), 400, "{what} on {route}");
                reply.refused(400, code, Some(param));
            }
            None if route == "/v1/videos" => assert_eq!(reply.good()["status"], "queued", "{what}"),
            None => drop(reply.refused(504, "sync_timeout", None)),
        }
        let taken = usize::from(refusal.is_none());
        assert_eq!(app.jobs().await.len() - before, taken, "{what} on {route}");
        app.until_spool_is_empty().await;
        for job in app.jobs().await {
            app.state.store.delete(&job.tenant, job.id).await.unwrap();
        }
    }
}

fn ref2va() -> Form {
    Form::new().text("extra_params[task]", "ref2va").text("seconds", "4")
}

fn many(form: Form, count: usize, bytes: &[u8]) -> Form {
    (0..count).fold(form, |form, _| form.file("input_references", bytes))
}

/// What refuses a medium of a single reference.
const MEDIA: Option<(&str, &str)> = Some(("invalid_reference_media", "input_reference"));

#[tokio::test]
async fn so_many_references_of_each_kind_and_in_all_are_taken() {
    let app = app().await;
    let files = files();
    let too_many = Some(("too_many_references", "input_references"));
    let combination = Some(("invalid_reference_combination", "input_references"));
    let audios = |count| {
        let sound = json!({"audio_url": data_url("audio/wav", &short_sound())});
        ref2va().file("input_reference", &files.png).json("audio_reference", json!(vec![sound; count]))
    };
    let film = short_film();
    for (what, form, refusal) in [
        ("nine pictures", many(ref2va(), 9, &files.png), None),
        ("ten pictures", many(ref2va(), 10, &files.png), too_many),
        ("three videos", many(ref2va(), 3, &film), None),
        ("four videos", many(ref2va(), 4, &film), too_many),
        ("three sounds", audios(3), None),
        ("four sounds", audios(4), Some(("too_many_references", "audio_reference"))),
        ("twelve in all", many(many(ref2va(), 9, &files.png), 3, &film), None),
        ("thirteen in all", many(many(ref2va(), 10, &files.png), 3, &film), too_many),
        ("one keyframe", many(Form::new(), 1, &files.png), None),
        ("two keyframes", many(Form::new(), 2, &files.png), None),
        ("three keyframes", many(Form::new(), 3, &files.png), combination),
        ("a sound alone", many(ref2va(), 1, &short_sound()), Some(("reference_required", "input_references"))),
        ("nothing", ref2va(), Some(("reference_required", "input_references"))),
    ] {
        check(&app, what, form, refusal).await;
    }
}

#[tokio::test]
async fn pictures_have_sides_and_a_shape() {
    let app = app().await;
    let folder = TempDir::new().unwrap();
    for (size, refusal) in [
        ("256x256", None),
        ("255x256", MEDIA),
        ("256x255", MEDIA),
        ("640x256", None),
        ("641x256", MEDIA),
        ("256x640", None),
        ("256x641", MEDIA),
        ("5760x2304", None),
        ("5761x2305", MEDIA),
        ("2305x5761", MEDIA),
    ] {
        // A source of RGB, which keeps odd sides.
        let source = format!("testsrc=s={size}");
        let picture = made(folder.path(), &format!("{size}.png"), &["-f", "lavfi", "-i", &source, "-frames:v", "1"]);
        check(&app, size, ref2va().file("input_reference", &picture), refusal).await;
        // As a keyframe too.
        check(&app, size, Form::new().text("seconds", "4").file("input_reference", &picture), refusal).await;
    }
}

#[tokio::test]
async fn videos_have_sides_a_rate_and_a_length() {
    let app = app().await;
    for (size, rate, seconds, refusal) in [
        ("256x256", "24", "2", None),
        ("254x256", "24", "2", MEDIA),
        ("640x256", "24", "2", None),
        ("644x256", "24", "2", MEDIA),
        ("320x256", "24000/1001", "2.1", None),
        ("320x256", "23", "3", MEDIA),
        ("320x256", "60", "2", None),
        ("320x256", "61", "3", MEDIA),
        ("320x256", "24", "1.9", MEDIA),
        ("320x256", "24", "15", None),
        ("320x256", "24", "15.25", MEDIA),
    ] {
        let what = format!("{size} at {rate} for {seconds} s");
        check(&app, &what, ref2va().file("input_reference", &film(size, rate, seconds)), refusal).await;
    }
    let total = Some(("invalid_reference_media", "input_references"));
    let of = |seconds: &[&str]| {
        seconds.iter().fold(ref2va(), |form, seconds| form.file("input_references", &film("320x256", "24", seconds)))
    };
    check(&app, "15 s in two", of(&["7.5", "7.5"]), None).await;
    check(&app, "15.5 s in two", of(&["7.75", "7.75"]), total).await;
}

#[tokio::test]
async fn sounds_have_a_length() {
    let app = app().await;
    let form = |seconds: &[&str]| {
        let png = ref2va().file("input_references", &files().png);
        seconds.iter().fold(png, |form, seconds| form.file("input_references", &sound(seconds)))
    };
    let second = Some(("invalid_reference_media", "input_references[1]"));
    let total = Some(("invalid_reference_media", "input_references"));
    for (seconds, refusal) in [
        (&["2"][..], None),
        (&["1.95"], second),
        (&["15"], None),
        (&["15.15"], second),
        (&["5", "5", "5"], None),
        (&["5.2", "5.2", "5.2"], total),
    ] {
        check(&app, &format!("{seconds:?}"), form(seconds), refusal).await;
    }
}

#[tokio::test]
async fn files_have_so_many_bytes_and_no_more() {
    let app = app().await;
    const MIB: usize = 1 << 20;
    let files = files();
    for (what, exact, beyond, field, form) in [
        ("a picture", padded_png(30 * MIB), padded_png(30 * MIB + 1), "input_references[0]", ref2va()),
        ("a video", padded_mp4(50 * MIB), padded_mp4(50 * MIB + 1), "input_references[0]", ref2va()),
        (
            "a sound",
            padded_wav(15 * MIB),
            padded_wav(15 * MIB + 2),
            "input_references[1]",
            ref2va().file("input_references", &files.png),
        ),
    ] {
        let reply = app.post_form(form.clone().file("input_references", &exact)).await;
        assert_eq!(reply.good()["status"], "queued", "{what}");
        let reply = app.post_form(form.file("input_references", &beyond)).await;
        let message = reply.refused(400, "invalid_reference_media", Some(field));
        assert!(message.contains("bytes"), "{what}: {message}");
        app.until_spool_is_empty().await;
    }
}

#[tokio::test]
async fn only_the_documented_formats_are_taken() {
    let app = app().await;
    let folder = TempDir::new().unwrap();
    let picture = ["-f", "lavfi", "-i", "testsrc=s=320x256", "-frames:v", "1"];
    let video = ["-f", "lavfi", "-i", "testsrc=s=320x256:r=24:d=2.5"];
    let sound = ["-f", "lavfi", "-i", "sine=d=2.5:r=32000"];
    let file = |name: &str, source: &[&str], codec: &[&str]| made(folder.path(), name, &[source, codec].concat());
    let with_sound = |codec: &str, name: &str| {
        let source = [&video[..], &["-f", "lavfi", "-i", "sine=d=2.5:r=48000"]].concat();
        made(folder.path(), name, &[&source[..], &H264, &["-c:a", codec, "-shortest"]].concat())
    };
    for (what, bytes, refusal) in [
        ("PNG", file("a.png", &picture, &[]), None),
        ("JPEG", file("a.jpg", &picture, &[]), None),
        ("WebP", file("a.webp", &picture, &["-c:v", "libwebp"]), None),
        ("GIF", file("a.gif", &picture, &[]), MEDIA),
        ("BMP", file("a.bmp", &picture, &[]), MEDIA),
        ("TIFF", file("a.tiff", &picture, &[]), MEDIA),
        ("H.264 in MP4", file("a.mp4", &video, &H264), None),
        ("H.265 in MP4", file("b.mp4", &video, &["-c:v", "libx265", "-pix_fmt", "yuv420p"]), None),
        ("H.264 in MOV", file("a.mov", &video, &H264), None),
        ("H.264 and AAC", with_sound("aac", "c.mp4"), None),
        ("H.264 and MP3", with_sound("libmp3lame", "d.mp4"), None),
        ("H.264 and AC-3", with_sound("ac3", "e.mp4"), MEDIA),
        ("MPEG-4 Part 2 in MP4", file("f.mp4", &video, &["-c:v", "mpeg4"]), MEDIA),
        ("VP9 in WebM", file("a.webm", &video, &["-c:v", "libvpx-vp9"]), MEDIA),
        ("H.264 in Matroska", file("a.mkv", &video, &H264), MEDIA),
        ("H.264 in AVI", file("a.avi", &video, &H264), MEDIA),
        ("nothing", Vec::new(), MEDIA),
        ("text", b"not a picture at all".to_vec(), MEDIA),
    ] {
        check(&app, what, ref2va().file("input_reference", &bytes), refusal).await;
    }
    let broken = Some(("invalid_reference_media", "input_references[1]"));
    for (what, bytes, refusal) in [
        ("PCM in WAV", file("a.wav", &sound, &[]), None),
        ("MP3", file("a.mp3", &sound, &["-c:a", "libmp3lame"]), None),
        ("FLAC", file("a.flac", &sound, &[]), broken),
        ("Ogg", file("a.ogg", &sound, &["-c:a", "libopus"]), broken),
        ("A-law in WAV", file("b.wav", &sound, &["-c:a", "pcm_alaw"]), broken),
        ("half a picture", files().png[..files().png.len() / 2].to_vec(), broken),
        ("half a video", files().mp4[..files().mp4.len() / 2].to_vec(), broken),
        ("the head of a sound", files().wav[..40].to_vec(), broken),
    ] {
        let form = ref2va().file("input_references", &files().png).file("input_references", &bytes);
        check(&app, what, form, refusal).await;
    }
}

fn film(size: &str, rate: &str, seconds: &str) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    let source = format!("testsrc=s={size}:r={rate}:d={seconds}");
    made(folder.path(), "a.mp4", &[&["-f", "lavfi", "-i", &source][..], &H264].concat())
}

fn short_film() -> Vec<u8> {
    film("256x256", "24", "2")
}

fn sound(seconds: &str) -> Vec<u8> {
    let folder = TempDir::new().unwrap();
    made(folder.path(), "a.wav", &["-f", "lavfi", "-i", &format!("sine=d={seconds}:r=8000")])
}

fn short_sound() -> Vec<u8> {
    sound("2")
}

/// A picture of so many bytes: the rest is in a chunk that no reader has to know.
fn padded_png(bytes: usize) -> Vec<u8> {
    let png = &files().png;
    let (head, end) = png.split_at(png.len() - 12);
    let data = vec![0; bytes - png.len() - 12];
    let chunk = [&b"paDd"[..], &data].concat();
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [head, &length, &chunk, &crc32(&chunk).to_be_bytes(), end].concat()
}

/// The checksum of PNG's chunks.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    let table: Vec<u32> = (0..256).map(|byte| (0..8).fold(byte, |crc, _| step(crc))).collect();
    !bytes.iter().fold(!0, |crc, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

/// A video of so many bytes: the rest is in a box that is free.
fn padded_mp4(bytes: usize) -> Vec<u8> {
    let mp4 = &files().mp4;
    let length = u32::try_from(bytes - mp4.len()).unwrap();
    [mp4, &length.to_be_bytes()[..], b"free", &vec![0; length as usize - 8]].concat()
}

/// A sound of so many bytes: the rest is in a chunk of junk.
fn padded_wav(bytes: usize) -> Vec<u8> {
    let mut wav = files().wav.clone();
    let length = u32::try_from(bytes - wav.len() - 8).unwrap();
    wav[4..8].copy_from_slice(&u32::try_from(bytes - 8).unwrap().to_le_bytes());
    [&wav[..], b"JUNK", &length.to_le_bytes(), &vec![0; length as usize]].concat()
}

#[test]
fn the_machine_has_the_encoders_that_these_tests_need() {
    let listed = Command::new("ffmpeg").args(["-v", "error", "-encoders"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for encoder in ["libx264", "libx265", "libwebp", "libmp3lame", "libvpx-vp9", "libopus", "ac3"] {
        assert!(listed.contains(encoder), "ffmpeg lacks {encoder}");
    }
}
