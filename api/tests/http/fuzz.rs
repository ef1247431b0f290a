//! Bodies that nobody meant to send: whatever comes, the answer is one of the documented, and nothing stays behind.

use std::sync::OnceLock;

use proptest::prelude::*;
use tokio::runtime::Runtime;

use crate::app::TestApp;
use crate::media::FORM;

/// A piece of a multipart body, as it should be or nearly.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let text = |pieces: &'static [&'static str]| prop::sample::select(pieces).prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![
        4 => text(&["--xyzzy\r\n", "\r\n--xyzzy\r\n", "\r\n--xyzzy--\r\n", "--xyzzy--", "\r\n\r\n", "\r\n", "\n"]),
        4 => text(&[
            "Content-Disposition: form-data; name=\"prompt\"\r\n\r\na cat",
            "Content-Disposition: form-data; name=\"size\"\r\n\r\n512x288",
            "Content-Disposition: form-data; name=\"a[b][][c]\"\r\n\r\n1",
            "Content-Disposition: form-data; name=\"extra_params[\"\r\n\r\n{",
            "Content-Disposition: form-data; name=\"metadata[k]\"\r\n\r\nv",
            "Content-Disposition: form-data; name=\"input_references[]\"; filename=\"../../a\"\r\n\r\nGIF89a",
            "Content-Disposition: form-data; name=\"input_reference\"; filename*=UTF-8''a\r\n\r\n",
            "Content-Disposition: form-data; name=\"audio_reference[audio_url]\"\r\n\r\ndata:audio/wav;base64,AAAA",
            "Content-Disposition: form-data\r\nContent-Type: text/plain; charset=x\r\n\r\n",
        ]),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn service() -> &'static (Runtime, TestApp) {
    static SERVICE: OnceLock<(Runtime, TestApp)> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let runtime = Runtime::new().unwrap();
        let app = runtime.block_on(TestApp::start_all(Default::default()));
        (runtime, app)
    })
}

/// Sends a body and checks its answer.
fn answered(content_type: &str, body: Vec<u8>) {
    let (runtime, app) = service();
    runtime.block_on(async {
        let reply = app.post("/v1/videos", content_type, body).await;
        match reply.status.as_u16() {
            200 => assert_eq!(reply.good()["status"], "queued"),
            400 | 413 | 415 => assert!(!reply.error().1.is_empty()),
            other => panic!("the answer was {other}: {}", String::from_utf8_lossy(&reply.body)),
        }
        app.until_spool_is_empty().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn forms_of_any_pieces_are_taken_or_refused(pieces in prop::collection::vec(piece(), 0..12)) {
        answered(FORM, pieces.concat());
    }

    #[test]
    fn urlencoded_bodies_of_any_pieces_are_taken_or_refused(body in "([a-z]{1,3}(\\[[a-z]?\\]){0,6}=?[%a-f0-9&+]{0,6}&){0,9}\\PC{0,9}") {
        answered("application/x-www-form-urlencoded", body.into_bytes());
    }

    #[test]
    fn json_of_any_shape_is_taken_or_refused(body in "[\\[\\]{}\",:0-9a-z\\\\ ]{0,40}|\\{\"(prompt|metadata|webhook_events|expires_after|extra_params)\": [\\[\\]{}\"0-9a]{0,12}\\}") {
        answered("application/json", body.into_bytes());
    }
}
