//! URLs in requests, which lead to servers of the tests' own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use clapboard_api::Options;
use clapboard_h3::InputRole;
use clapboard_jobs::{Tenant, TenantLimits};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::app::TestApp;
use crate::connections::within;
use crate::media::{FORM, Form, files};

/// A web server, and how often it was asked for something.
struct Web {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
}

impl Web {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hits);
        let endless =
            || Body::from_stream(stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![0; 1 << 16]))));
        let drip = || {
            let pieces = stream::repeat(()).then(async |()| {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok::<_, std::io::Error>(Bytes::from_static(b"x"))
            });
            Body::from_stream(pieces)
        };
        let typed = |content_type: &'static str, bytes: &'static [u8]| ([(header::CONTENT_TYPE, content_type)], bytes);
        let router = Router::new()
            .route("/a.png", get(move || async move { typed("image/png", &files().png) }))
            .route("/picture", get(move || async move { typed("application/octet-stream", &files().jpeg) }))
            .route("/a.mp4", get(move || async move { typed("video/mp4", &files().mp4) }))
            .route("/a.wav", get(move || async move { typed("audio/x-wav", &files().wav) }))
            .route("/jpeg", get(move || async move { typed("image/jpeg", &files().png) }))
            .route("/download", get(move || async move { typed("application/force-download", &files().png) }))
            .route("/text", get(move || async move { typed("text/plain; charset=utf-8", &files().png) }))
            .route("/liar.png", get(move || async move { typed("video/mp4", &files().png) }))
            .route("/page", get(move || async move { typed("text/html", b"<html></html>") }))
            .route("/empty", get(|| async { StatusCode::OK }))
            .route("/gone", get(|| async { StatusCode::NOT_FOUND }))
            .route("/zip", get(|| async { ([(header::CONTENT_ENCODING, "gzip")], "x") }))
            .route("/endless", get(move || async move { endless() }))
            .route("/drip", get(move || async move { drip() }))
            .route("/moved", get(|| async { Redirect::temporary("/a.png") }))
            .route("/loop", get(|| async { Redirect::temporary("/loop") }))
            .route(
                "/inside",
                get(move || async move { Redirect::to(&format!("http://127.0.0.1:{}/a.png", address.port())) }),
            )
            .route("/metadata", get(|| async { Redirect::to("http://169.254.169.254/latest/meta-data/") }))
            .layer(axum::middleware::from_fn(move |request, next: axum::middleware::Next| {
                count.fetch_add(1, Ordering::SeqCst);
                async move { next.run(request).await.into_response() }
            }));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, hits }
    }

    fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.address.port())
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

/// Lets requests lead to the test's own server by its name, and to nothing else here.
fn home() -> Options {
    Options { allow_url_hosts: vec!["localhost".to_owned()], ..Options::default() }
}

fn image(url: String) -> Value {
    json!({"prompt": "a cat", "image_reference": {"image_url": url}})
}

#[tokio::test]
async fn files_are_fetched_and_looked_into_like_those_that_are_sent() {
    use InputRole::{Audio, FirstFrame, Image, LastFrame, Video};
    let (app, web) = (TestApp::start_all(home()).await, Web::start().await);
    let [png, jpeg, mp4, wav] = ["/a.png", "/picture", "/a.mp4", "/a.wav"].map(|path| web.url(path));
    for (body, roles) in [
        (image(png.clone()), vec![FirstFrame]),
        (image(web.url("/moved")), vec![FirstFrame]),
        (image(web.url("/jpeg")), vec![FirstFrame]),
        (image(web.url("/download")), vec![FirstFrame]),
        (image(web.url("/text")), vec![FirstFrame]),
        (
            json!({"prompt": "x", "image_reference": [{"image_url": png}, {"image_url": jpeg}]}),
            vec![FirstFrame, LastFrame],
        ),
        (json!({"prompt": "x", "input_reference": {"video_url": mp4}}), vec![Video]),
        (
            json!({
                "prompt": "x", "image_reference": [{"image_url": jpeg}], "video_reference": [{"video_url": mp4}],
                "audio_reference": [{"audio_url": wav}],
            }),
            vec![Image, Video, Audio],
        ),
    ] {
        let reply = app.create(body.clone()).await;
        let id = reply.good()["id"].as_str().unwrap().to_owned();
        let spec = app.job(&id).await.spec.decode().unwrap();
        assert_eq!(spec.inputs.iter().map(|input| input.role).collect::<Vec<_>>(), roles, "{body}");
        assert_eq!(app.spooled(), 0);
    }
}

#[tokio::test]
async fn what_cannot_be_fetched_is_told_by_its_field() {
    let (app, web) = (TestApp::start_all(home()).await, Web::start().await);
    for (path, code, words) in [
        ("/gone", "reference_fetch_failed", "the host answered with status 404"),
        ("/zip", "reference_fetch_failed", "the answer is compressed, and must not be"),
        ("/loop", "reference_fetch_failed", "it redirects more than 3 times"),
        ("/inside", "reference_url_forbidden", "the host is not on the public internet"),
        ("/metadata", "reference_url_forbidden", "the host is not on the public internet"),
        ("/empty", "invalid_reference_media", "the file is empty"),
    ] {
        let message =
            within(app.create(image(web.url(path)))).await.refused(400, code, Some("image_reference.image_url"));
        assert_eq!(message, format!("image_reference.image_url: {words}"));
        app.until_spool_is_empty().await;
    }
    for path in ["/page", "/liar.png", "/a.wav"] {
        let reply = app.create(image(web.url(path))).await;
        let message = reply.refused(400, "invalid_reference_media", Some("image_reference.image_url"));
        assert!(!message.contains("localhost"), "{message}");
    }
    assert!(app.jobs().await.is_empty());
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn a_body_that_drips_is_given_up_in_time() {
    let options = Options { input_fetch_timeout: Duration::from_millis(500), ..home() };
    let (app, web) = (TestApp::start_all(options).await, Web::start().await);
    let reply = within(app.create(image(web.url("/drip")))).await;
    let message = reply.refused(400, "reference_fetch_failed", Some("image_reference.image_url"));
    assert_eq!(message, "image_reference.image_url: the files of the request did not come within 0.5 s");
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn a_body_without_end_is_given_up_at_the_limit_of_its_kind() {
    let (app, web) = (TestApp::start_all(home()).await, Web::start().await);
    let body = json!({
        "prompt": "x", "image_reference": {"image_url": web.url("/a.png")},
        "audio_reference": {"audio_url": web.url("/endless")},
    });
    let message =
        within(app.create(body)).await.refused(400, "reference_fetch_failed", Some("audio_reference.audio_url"));
    assert!(message.contains("15728640 bytes"), "{message}");
    app.until_spool_is_empty().await;
}

#[tokio::test]
async fn hosts_that_are_not_public_are_not_asked() {
    let (app, web) = (TestApp::start_all(Options::default()).await, Web::start().await);
    let port = web.address.port();
    for host in ["localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]"]
    {
        let reply = app.create(image(format!("http://{host}:{port}/a.png"))).await;
        reply.refused(400, "reference_url_forbidden", Some("image_reference.image_url"));
    }
    let reply = app.create(image("http://169.254.169.254/latest/meta-data/".to_owned())).await;
    reply.refused(400, "reference_url_forbidden", Some("image_reference.image_url"));
    let reply = app.create(image("http://127.0.0.1:22/".to_owned())).await;
    let message = reply.refused(400, "reference_url_forbidden", Some("image_reference.image_url"));
    assert_eq!(message, "image_reference.image_url: the port must be 80, 443 or at least 1024, got 22");
    assert_eq!(web.hits(), 0);
}

#[tokio::test]
async fn nothing_is_fetched_for_a_request_that_breaks_a_rule() {
    let (app, web) = (TestApp::start_all(home()).await, Web::start().await);
    for changes in [
        json!({"prompt": ""}),
        json!({"seconds": 99}),
        json!({"fps": 30}),
        json!({"num_inference_steps": 1000}),
        json!({"model": "gpt-5"}),
        json!({"extra_params": {"task": "t2va"}}),
        json!({"extra_params": {"task": "soup"}}),
        json!({"input_reference": {"image_url": web.url("/a.png")}}),
        json!({"image_reference": vec![json!({"image_url": web.url("/a.png")}); 3]}),
        json!({"lora": {"name": "x"}}),
    ] {
        let mut body = image(web.url("/a.png"));
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        let reply = app.create(body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{changes}");
    }
    assert_eq!(web.hits(), 0);
    // A file that was sent is looked into before anything is fetched, too.
    let form = Form::new()
        .file("input_references", b"just text")
        .json("audio_reference", json!({"audio_url": web.url("/a.wav")}));
    let reply = app.post("/v1/videos", FORM, form.body()).await;
    reply.refused(400, "invalid_reference_media", Some("input_references[0]"));
    assert_eq!((web.hits(), app.spooled()), (0, 0));
}

#[tokio::test]
async fn nothing_is_read_or_fetched_for_a_tenant_whose_queue_is_full() {
    let (app, web) = (TestApp::start_all(home()).await, Web::start().await);
    let limits = TenantLimits { max_queued: Some(1), ..TenantLimits::default() };
    app.state.store.set_tenant(&Tenant::default(), &limits).await.unwrap();
    app.create_any().await;
    let full = within(app.create(image(web.url("/a.png")))).await;
    full.refused(429, "queue_full", None);
    assert_eq!((full.header("retry-after"), web.hits()), ("30", 0));
    let form = Form::new().file("input_reference", &files().png);
    app.post_form(form).await.refused(429, "queue_full", None);
    let long = image(format!("data:image/png;base64,{}", "A".repeat(2 << 20)));
    app.create(long).await.refused(429, "queue_full", None);
    assert_eq!(app.spooled(), 0);
}

#[tokio::test]
async fn a_client_of_the_synchronous_route_that_leaves_during_a_fetch_leaves_nothing() {
    let (app, web) = (TestApp::start_all(home()).await, Web::start().await);
    let mut client = TcpStream::connect(app.listen().await).await.unwrap();
    let body = image(web.url("/drip")).to_string();
    let head = format!(
        "POST /v1/videos/sync HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    within(app.until(async || (web.hits() == 1).then_some(()))).await;
    drop(client);
    within(app.until_spool_is_empty()).await;
    assert!(app.jobs().await.is_empty());
}
