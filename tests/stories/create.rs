//! A prompt becomes an MP4, however it is sent.

use std::fs;

use serde_json::json;

use crate::support::{Body, Service, assert_video, short_job};

#[test]
fn a_prompt_in_json_becomes_a_video_that_can_be_downloaded() {
    let service = Service::start();
    let id = service.create(&short_job());
    let video = service.completed(&id);
    let facts = ["size", "seconds", "num_frames", "seed", "progress", "task", "forwards", "attempt", "error"];
    let told: Vec<_> = facts.map(|fact| video[fact].clone()).to_vec();
    assert_eq!(json!(told), json!(["64x32", "1", 22, 7, 100, "t2va", 2, 1, null]));
    assert!(video["stage_durations"].as_object().is_some_and(|stages| stages.contains_key("denoise")), "{video}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("video.mp4");
    fs::write(&file, service.download(&id)).unwrap();
    assert_video(&file, (64, 32), 22);
}

#[test]
fn forms_say_the_same_as_json() {
    let service = Service::start();
    let fields = [
        ("prompt", "A paper boat on a pond"),
        ("size", "64x32"),
        ("num_frames", "22"),
        ("num_inference_steps", "3"),
        ("seed", "7"),
    ];
    let ids: Vec<String> = [Body::Multipart(&fields), Body::Urlencoded(&fields), Body::Json(&short_job())]
        .map(|body| {
            let reply = service.post(body);
            assert_eq!(reply.status, 200, "{}", reply.json());
            reply.json()["id"].as_str().unwrap().to_owned()
        })
        .to_vec();
    let files: Vec<Vec<u8>> = ids
        .iter()
        .map(|id| {
            service.completed(id);
            service.download(id)
        })
        .collect();
    assert!(files[0].len() > 1000);
    assert!(files[0] == files[1] && files[1] == files[2], "one request, three encodings, different videos");
}

#[test]
fn the_synchronous_route_answers_with_the_file() {
    let service = Service::start();
    let reply = service.request("POST", "/v1/videos/sync", &[], Body::Json(&short_job()));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("video/mp4")));
    let id = reply.header("x-video-id").expect("it names the job").to_owned();
    assert_eq!(reply.body, service.download(&id));
    assert!(reply.header("x-inference-time-s").is_some_and(|seconds| seconds.parse::<f64>().is_ok()));
}

/// The published recipes' requests, but for the size and the number of steps.
#[test]
fn the_recipes_lines_for_text_work_through_the_synchronous_route() {
    let service = Service::start();
    let minimal = [
        ("prompt", "A quiet cinematic night scene with matching ambient sound."),
        ("width", "64"),
        ("height", "32"),
        ("aspect_ratio", "16:9"),
        ("fps", "24"),
        ("num_inference_steps", "3"),
        ("flow_shift", "12"),
        ("seed", "1101"),
        ("extra_params", r#"{"task":"t2va","duration":0.9,"audio_flow_shift":3.0}"#),
    ];
    let reply = service.request("POST", "/v1/videos/sync", &[], Body::Form(&minimal));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("video/mp4")), "{:?}", reply.headers);
    for header in ["x-inference-time-s", "x-peak-memory-mb"] {
        assert!(reply.header(header).is_some_and(|value| value.parse::<f64>().is_ok()), "{header}");
    }
    let file = service.data().join("t2va.mp4");
    fs::write(&file, &reply.body).unwrap();
    assert_video(&file, (64, 32), 22);

    let without: Vec<_> = minimal.into_iter().filter(|(name, _)| *name != "aspect_ratio").collect();
    let refused = service.request("POST", "/v1/videos/sync", &[], Body::Form(&without));
    let (status, code, param) = refused.error();
    let expected = (400, "missing_required_parameter", Some("aspect_ratio"));
    assert_eq!((status, code.as_str(), param.as_deref()), expected);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("t2va requires an explicit aspect_ratio"), "{message}");
}

#[test]
fn a_part_of_the_file_can_be_asked_for() {
    let service = Service::start();
    let id = service.create(&short_job());
    service.completed(&id);
    let whole = service.download(&id);
    let path = format!("/v1/videos/{id}/content");
    let part = service.request("GET", &path, &["range: bytes=4-11"], Body::Nothing);
    let range = format!("bytes 4-11/{}", whole.len());
    assert_eq!((part.status, part.header("content-range")), (206, Some(range.as_str())));
    assert_eq!(part.body, whole[4..12]);
    assert_eq!(&part.body[..4], b"ftyp", "the index comes first");
    let head = service.request("HEAD", &path, &[], Body::Nothing);
    assert_eq!((head.status, head.header("content-length")), (200, Some(whole.len().to_string().as_str())));
    let beyond = service.request("GET", &path, &["range: bytes=99999999-"], Body::Nothing);
    assert_eq!(beyond.error().0, 416);
}

#[test]
fn the_list_has_the_newest_first() {
    let service = Service::start();
    let ids: Vec<String> = (0..3).map(|_| service.create(&short_job())).collect();
    let list = service.get("/v1/videos?limit=2").json();
    let listed: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|video| video["id"].as_str().unwrap()).collect();
    assert_eq!(listed, [ids[2].as_str(), ids[1].as_str()]);
    assert_eq!((list["has_more"].as_bool(), list["last_id"].as_str()), (Some(true), Some(ids[1].as_str())));
    let rest = service.get(&format!("/v1/videos?after={}", ids[1])).json();
    assert_eq!(rest["data"][0]["id"].as_str(), Some(ids[0].as_str()));
    for id in &ids {
        service.completed(id);
    }
}

#[test]
fn the_service_describes_itself() {
    let service = Service::start();
    assert_eq!(service.get("/health").status, 200);
    assert_eq!(service.get("/ready").status, 200);
    let document = service.get("/openapi.json").json();
    assert!(document["paths"]["/v1/videos"]["post"].is_object());
}
