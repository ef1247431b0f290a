//! Pictures of finished videos.

use axum::http::{Method, StatusCode};
use clapboard_jobs::PreviewKind;
use serde_json::json;

use crate::app::TestApp;
use crate::worker::picture;

#[tokio::test]
async fn every_picture_comes_as_the_video_does() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().do_one_with_previews().await;
    for (kind, media_type, name) in [
        (PreviewKind::Thumbnail, "image/webp", format!("{id}-thumbnail.webp")),
        (PreviewKind::Spritesheet, "image/jpeg", format!("{id}-spritesheet.jpg")),
    ] {
        let path = format!("/v1/videos/{id}/content?variant={}", kind.as_str());
        let whole = app.get(&path).await;
        assert_eq!((whole.status, &whole.body), (StatusCode::OK, &picture(kind)));
        assert_eq!(whole.header("content-type"), media_type);
        assert_eq!(whole.header("content-disposition"), format!("attachment; filename=\"{name}\""));
        assert_eq!(whole.header("accept-ranges"), "bytes");
        let head = app.call(Method::HEAD, &path).await;
        assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
        for header in ["content-type", "content-length", "etag", "last-modified", "content-disposition"] {
            assert_eq!(head.header(header), whole.header(header), "{header}");
        }
        let part = app.get_with(&path, &[("range", "bytes=1-3")]).await;
        assert_eq!((part.status, part.body.as_slice()), (StatusCode::PARTIAL_CONTENT, &picture(kind)[1..4]));
        let known = app.get_with(&path, &[("if-none-match", whole.header("etag"))]).await;
        assert_eq!(known.status, StatusCode::NOT_MODIFIED);
        app.get_with(&path, &[("range", "bytes=1000000-")]).await.refused(416, "range_not_satisfiable", Some("Range"));
    }
    let video = app.get(&format!("/v1/videos/{id}/content?variant=video")).await;
    assert_eq!(video.header("content-type"), "video/mp4");
    let tags = [video, app.get(&format!("/v1/videos/{id}/content?variant=thumbnail")).await];
    assert_ne!(tags[0].header("etag"), tags[1].header("etag"));
}

#[tokio::test]
async fn a_video_without_pictures_says_so() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let path = format!("/v1/videos/{id}/content?variant=thumbnail");
    app.get(&path).await.refused(404, "video_not_ready", Some("video_id"));
    app.worker().do_one().await;
    let message = app.get(&path).await.refused(404, "not_found", Some("variant"));
    assert_eq!(message, "the video has no thumbnail: none could be made of it");
    let wrong = app.get(&format!("/v1/videos/{id}/content?variant=poster")).await;
    assert_eq!(wrong.refused(400, "invalid_value", Some("variant")), "variant must be video, thumbnail or spritesheet");
}

#[tokio::test]
async fn pictures_go_with_their_video() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    app.worker().do_one_with_previews().await;
    let keys: Vec<_> = app.job(&id).await.previews.into_iter().map(|preview| preview.object.key).collect();
    assert_eq!(keys.len(), 2);
    app.call(Method::DELETE, &format!("/v1/videos/{id}")).await.good();
    let garbage = app.state.store.garbage(10).await.unwrap();
    assert!(keys.iter().all(|key| garbage.contains(key)), "{garbage:?}");
    let reply = app.get(&format!("/v1/videos/{id}/content?variant=thumbnail")).await;
    assert_eq!(reply.refused(404, "not_found", Some("video_id")), json!("Video not found"));
}
