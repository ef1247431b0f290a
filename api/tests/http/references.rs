//! Requests with pictures, videos and sounds, in every way that clients send them.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use clapboard_api::{AppState, Options};
use clapboard_h3::InputRole;
use clapboard_jobs::BlobKey;
use clapboard_media::MediaTools;
use clapboard_media::decode::image::HeifTool;
use futures_util::TryStreamExt;
use serde_json::json;

use crate::app::{Reply, TestApp};
use crate::media::{FORM, Form, data_url, files, made, tools};

/// The roles of a job's inputs, once its objects were found to hold what was sent: the file that `sent` has at the index in
/// each object's name, which counts in the request's order.
async fn stored(app: &TestApp, reply: &Reply, sent: &[&[u8]]) -> Vec<InputRole> {
    let id = reply.good()["id"].as_str().unwrap().to_owned();
    let job = app.job(&id).await;
    let spec = job.spec.decode().unwrap();
    assert_eq!(spec.inputs.len(), sent.len());
    for input in &spec.inputs {
        let key: BlobKey = input.object.parse().unwrap();
        let after = key.as_str().strip_prefix(&format!("v1/default/{}/input-", job.id)).unwrap();
        let index: usize = after.split('-').next().unwrap().parse().unwrap();
        let opened = app.state.blob.open(&key, None).await.unwrap().unwrap();
        let bytes: Vec<Bytes> = opened.stream.try_collect().await.unwrap();
        assert!(bytes.concat() == sent[index], "{key} holds something else than what was sent");
        let role = match sent[index] {
            file if file == files().mp4 => matches!(input.role, InputRole::Video),
            file if file == files().wav => matches!(input.role, InputRole::Audio),
            _ => !matches!(input.role, InputRole::Video | InputRole::Audio),
        };
        assert!(role, "{key} is to be {:?}", input.role);
    }
    assert_eq!(app.spooled(), 0);
    spec.inputs.iter().map(|input| input.role).collect()
}

#[tokio::test]
async fn files_come_by_every_name_and_are_what_they_hold() {
    use InputRole::{Audio, FirstFrame, Image, LastFrame, Video};
    let app = TestApp::start_all(Options::default()).await;
    let files = files();
    let sound = json!({"audio_url": data_url("audio/wav", &files.wav)});
    let [png, jpeg, mp4, wav] = [&files.png, &files.jpeg, &files.mp4, &files.wav].map(Vec::as_slice);
    for (form, sent, roles) in [
        (Form::new().file("input_reference", &files.png), vec![png], vec![FirstFrame]),
        (Form::new().file("input_reference[]", &files.png), vec![png], vec![FirstFrame]),
        (Form::new().file_as("input_reference", "a.png", "image/png", &files.png), vec![png], vec![FirstFrame]),
        (
            Form::new().file("input_reference", &files.png).text("extra_params[frame_index]", "-1"),
            vec![png],
            vec![LastFrame],
        ),
        (
            Form::new().file("input_references", &files.png).file("input_references", &files.jpeg),
            vec![png, jpeg],
            vec![FirstFrame, LastFrame],
        ),
        (
            Form::new().file("input_reference", &files.png).file("input_reference", &files.jpeg),
            vec![png, jpeg],
            vec![FirstFrame, LastFrame],
        ),
        (
            Form::new()
                .file("input_references[]", &files.png)
                .file("input_references[]", &files.jpeg)
                .json("extra_params", json!({"task": "fl2va", "frame_indices": [0, -1]})),
            vec![png, jpeg],
            vec![FirstFrame, LastFrame],
        ),
        (Form::new().file("input_reference", &files.mp4), vec![mp4], vec![Video]),
        (
            Form::new().file("input_reference", &files.png).json("audio_reference", sound.clone()),
            vec![png, wav],
            vec![Image, Audio],
        ),
        (
            Form::new().file("input_references", &files.mp4).json("audio_reference", json!([sound])),
            vec![mp4, wav],
            vec![Video, Audio],
        ),
        (
            Form::new()
                .file("input_references[]", &files.wav)
                .file("input_references[]", &files.mp4)
                .file("input_references[]", &files.png)
                .file("input_references[]", &files.jpeg),
            vec![wav, mp4, png, jpeg],
            vec![Image, Image, Video, Audio],
        ),
        (Form::new().file("input_reference", &files.png).text("extra_params[task]", "ref2va"), vec![png], vec![Image]),
        // A browser sends this where no file was chosen.
        (
            Form::new()
                .file_as("input_references", "", "application/octet-stream", b"")
                .file("input_references", &files.png),
            vec![png],
            vec![FirstFrame],
        ),
    ] {
        let shown = String::from_utf8_lossy(&form.clone().open()).chars().take(200).collect::<String>();
        assert_eq!(stored(&app, &app.post_form(form).await, &sent).await, roles, "{shown}");
    }
}

#[tokio::test]
async fn urls_of_data_come_in_every_encoding() {
    use InputRole::{Audio, FirstFrame, Image, Video};
    let app = TestApp::start_all(Options::default()).await;
    let files = files();
    let png = json!({"image_url": data_url("image/png", &files.png)});
    let mp4 = json!({"video_url": data_url("video/mp4", &files.mp4)});
    let wav = json!({"audio_url": data_url("audio/wav", &files.wav)});
    let body = json!({"prompt": "a cat", "image_reference": [png], "video_reference": mp4, "audio_reference": wav});
    let sent = [files.png.as_slice(), &files.mp4, &files.wav];
    assert_eq!(stored(&app, &app.create(body).await, &sent).await, [Image, Video, Audio]);
    let body = json!({"prompt": "a cat", "image_reference": png.to_string(), "audio_reference": [wav]});
    assert_eq!(stored(&app, &app.create(body).await, &[&files.png, &files.wav]).await, [Image, Audio]);
    let body = json!({"prompt": "a cat", "input_reference": png});
    assert_eq!(stored(&app, &app.create(body).await, &[&files.png]).await, [FirstFrame]);
    let url = png["image_url"].as_str().unwrap();
    for form in [
        Form::new().text("image_reference[image_url]", url),
        Form::new().text("image_reference[][image_url]", url),
        Form::new().text("input_reference[image_url]", url),
        Form::new().json("input_reference", png.clone()),
        Form::new().json("image_reference", json!([png])),
    ] {
        assert_eq!(stored(&app, &app.post_form(form).await, &[&files.png]).await, [FirstFrame]);
    }
    let escaped = url.replace('+', "%2B").replace('=', "%3D");
    let body = format!("prompt=a+cat&image_reference%5Bimage_url%5D={escaped}");
    let reply = app.post("/v1/videos", "application/x-www-form-urlencoded", body).await;
    assert_eq!(stored(&app, &reply, &[&files.png]).await, [FirstFrame]);
    // A plus sign that is not escaped is a space: what is left of the file is not guessed at.
    let plain = url.replace("base64,", "base64,+");
    let body = format!("prompt=a+cat&image_reference%5Bimage_url%5D={plain}");
    let reply = app.post("/v1/videos", "application/x-www-form-urlencoded", body).await;
    reply.refused(400, "invalid_reference_url", Some("image_reference.image_url"));
}

#[tokio::test]
async fn what_does_not_go_together_is_told_and_leaves_nothing() {
    let app = TestApp::start_all(Options::default()).await;
    let files = files();
    let image = json!({"image_url": data_url("image/png", &files.png)});
    let sound = json!({"audio_url": data_url("audio/wav", &files.wav)});
    let many = |count: usize| (0..count).fold(Form::new(), |form, _| form.file("input_references", &files.png));
    for (form, code, param) in [
        (
            Form::new().file("input_references", &files.png).file("input_reference", &files.png),
            "conflicting_references",
            "input_reference",
        ),
        (
            Form::new().file("input_references", &files.png).json("image_reference", image.clone()),
            "conflicting_references",
            "image_reference",
        ),
        (
            Form::new().file("input_reference", &files.png).json("image_reference", image.clone()),
            "conflicting_references",
            "image_reference",
        ),
        (
            Form::new().file("input_reference", &files.png).json("input_reference", image.clone()),
            "conflicting_references",
            "input_reference",
        ),
        (many(13), "too_many_references", "input_references"),
        (many(12).json("audio_reference", sound.clone()), "too_many_references", "audio_reference"),
        (many(10).text("extra_params[task]", "ref2va"), "too_many_references", "input_references"),
        (many(3), "invalid_reference_combination", "input_references"),
        (many(1).text("extra_params[task]", "t2va"), "invalid_reference_combination", "input_references"),
        (Form::new().json("audio_reference", sound), "reference_required", "audio_reference"),
        (many(2).text("extra_params[frame_index]", "0"), "invalid_value", "frame_indices"),
        (
            Form::new().json("image_reference", json!({"file_id": "f"})),
            "unsupported_reference",
            "image_reference.file_id",
        ),
        (Form::new().file("image_reference", &files.png), "invalid_value", "image_reference"),
        (Form::new().file("prompt", &files.png), "invalid_value", "prompt"),
    ] {
        let reply = app.post_form(form).await;
        reply.refused(400, code, Some(param));
        app.until_spool_is_empty().await;
    }
    // A rule about all of a kind names what the client wrote, in param and message alike.
    let videos = (0..4).fold(Form::new(), |form, _| form.file("input_references", &files.mp4));
    let message = app.post_form(videos).await.refused(400, "too_many_references", Some("input_references"));
    assert_eq!(message, "input_references: ref2va takes at most 3 videos, got 4");
    let images = json!({"image_reference": vec![image; 3]});
    let nested = app.create(json!({"prompt": "a cat", "extra_params": images})).await;
    nested.refused(400, "invalid_reference_combination", Some("extra_params.image_reference"));
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn files_that_cannot_be_used_are_told_by_their_field() {
    let app = TestApp::start_all(Options::default()).await;
    let files = files();
    let folder = tempfile::tempdir().unwrap();
    let picture = |name: &str, size: &str| {
        let source = format!("color=s={size}");
        made(folder.path(), name, &["-f", "lavfi", "-i", &source, "-frames:v", "1"])
    };
    let short = made(folder.path(), "short.wav", &["-f", "lavfi", "-i", "sine=d=1"]);
    let slow = made(folder.path(), "slow.mp4", &["-f", "lavfi", "-i", "testsrc=s=320x256:r=10:d=3", "-c:v", "libx264"]);
    // A PNG that says it has a billion pixels.
    let mut bomb = files.png.clone();
    bomb[16..24].copy_from_slice(&[0, 0, 0x7f, 0xff, 0, 0, 0x7f, 0xff]);
    for (name, content_type, bytes) in [
        ("a", "application/octet-stream", Vec::new()),
        ("a.txt", "application/octet-stream", b"just text".to_vec()),
        ("a.jpg", "application/octet-stream", files.png.clone()),
        ("a", "image/jpeg", files.png.clone()),
        ("a.mp4", "video/mp4", files.png.clone()),
        ("a.png", "image/png", files.png[..files.png.len() / 2].to_vec()),
        ("a.jpg", "image/jpeg", files.jpeg[..files.jpeg.len() / 2].to_vec()),
        ("a.mp4", "video/mp4", files.mp4[..files.mp4.len() / 2].to_vec()),
        ("a.wav", "audio/wav", files.wav[..20].to_vec()),
        ("a.png", "image/png", bomb),
        ("a.gif", "image/gif", picture("a.gif", "320x256")),
        ("small.png", "image/png", picture("small.png", "255x256")),
        ("wide.png", "image/png", picture("wide.png", "642x256")),
        ("short.wav", "audio/wav", short),
        ("slow.mp4", "video/mp4", slow),
    ] {
        let form = Form::new().text("extra_params[task]", "ref2va").file("input_references", &files.png).file_as(
            "input_references",
            name,
            content_type,
            &bytes,
        );
        let reply = app.post_form(form).await;
        let message = reply.refused(400, "invalid_reference_media", Some("input_references[1]"));
        assert!(message.starts_with("input_references[1]"), "{name}: {message}");
        let spool = app.state.options.spool.to_str().unwrap();
        assert!(!message.contains(spool) && !message.contains("clapboard-input"), "{name}: {message}");
        app.until_spool_is_empty().await;
    }
    // What is said of a URL names that, and a field that wants a sound takes no picture.
    for (field, value, param) in [
        ("audio_reference", json!({"audio_url": data_url("audio/wav", &files.png)}), "audio_reference.audio_url"),
        ("image_reference", json!([{"image_url": data_url("image/png", b"")}]), "image_reference[0].image_url"),
    ] {
        let mut body = json!({"prompt": "a cat", "extra_params": {"task": "ref2va"}});
        body["image_reference"] = json!({"image_url": data_url("image/png", &files.png)});
        body[field] = value;
        app.create(body).await.refused(400, "invalid_reference_media", Some(param));
        assert_eq!(app.spooled(), 0);
    }
    let broken = json!({"prompt": "a cat", "image_reference": {"image_url": "data:image/png;base64,%%%"}});
    app.create(broken).await.refused(400, "invalid_reference_url", Some("image_reference.image_url"));
    let broken = json!({"prompt": "a cat", "image_reference": [{"image_url": "data:image/png;base64,%%%"}]});
    let refused = app.create(broken).await;
    let message = refused.refused(400, "invalid_reference_url", Some("image_reference[0].image_url"));
    let label = "Invalid image_reference.image_url at index 0";
    assert_eq!(message, format!("{label}: the data is not base64"));
    assert!(app.jobs().await.is_empty());
}

#[tokio::test]
async fn the_published_request_of_references_works_on_the_synchronous_route() {
    let app = TestApp::start_all(Options { sync_poll: Duration::from_millis(5), ..Options::default() }).await;
    let form = Form::new()
        .text("extra_params", r#"{"task": "ref2va", "duration": 5}"#)
        .text("aspect_ratio", "16:9")
        .file_as("input_reference", "a.png", "image/png", &files().png)
        .json("audio_reference", json!({"audio_url": data_url("audio/wav", &files().wav)}));
    let worker = app.worker();
    let (reply, ()) = tokio::join!(app.post("/v1/videos/sync", FORM, form.body()), async {
        app.until(async || (app.jobs().await.len() == 1).then_some(())).await;
        worker.do_one().await;
    });
    assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, "video/mp4"));
    assert_eq!(app.spooled(), 0);
    let refused = app.post("/v1/videos/sync", FORM, Form::new().file("input_reference", b"x").body()).await;
    refused.refused(400, "invalid_reference_media", Some("input_reference"));
}

#[tokio::test]
async fn a_photograph_of_a_phone_is_taken_and_the_machines_lack_of_a_reader_is_not_the_clients_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (png, heic) = (folder.path().join("a.png"), folder.path().join("a.heic"));
    std::fs::write(&png, &files().png).unwrap();
    let made = Command::new("heif-enc").arg(&png).arg("-o").arg(&heic).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let heic = std::fs::read(heic).unwrap();
    let form = || Form::new().file_as("input_reference", "IMG_1.HEIC", "image/heic", &heic);
    let app = TestApp::start_all(Options::default()).await;
    let reply = app.post_form(form()).await;
    let id = reply.good()["id"].as_str().unwrap().to_owned();
    assert_eq!(app.job(&id).await.spec.decode().unwrap().inputs[0].role, InputRole::FirstFrame);
    let lacking = MediaTools { heif: HeifTool::at(folder.path().join("nowhere")), ..MediaTools::clone(&tools()) };
    let state = AppState { tools: Arc::new(lacking), ..app.state.clone() };
    let app = app.with(state);
    let reply = app.post_form(form()).await;
    let message = reply.refused(500, "internal_error", Some("input_reference"));
    assert_eq!(message, "input_reference: HEIC is not read here; send the picture as JPEG, PNG or WebP");
    assert_eq!(reply.header("x-should-retry"), "false");
    assert_eq!((app.spooled(), app.jobs().await.len()), (0, 1));
}
