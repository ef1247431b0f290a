//! A job that nobody wants any more leaves nothing.

use serde_json::json;

use crate::support::{Body, Service, files_below, long_job, short_job, until};

#[test]
fn deleting_a_running_job_stops_it_and_leaves_nothing_on_disk() {
    let service = Service::start();
    let id = service.create(&long_job());
    service.in_its_middle(&id);
    let reply = service.request("DELETE", &format!("/v1/videos/{id}"), &[], Body::Nothing);
    assert_eq!(reply.json(), json!({"id": id, "object": "video.deleted", "deleted": true}));
    assert_eq!(service.get(&format!("/v1/videos/{id}")).error().0, 404);

    // The next job ends long before the deleted one would have.
    let next = service.create(&short_job());
    let video = service.completed(&next);
    assert_eq!(video["attempt"], 1);
    until("the scratch folder to be empty", || files_below(&service.data().join("scratch")).is_empty().then_some(()));
    let media = files_below(&service.data().join("media"));
    assert_eq!(media.len(), 3, "only the second job's video and its two pictures: {media:?}");
    assert!(media.iter().all(|file| file.to_string_lossy().contains(&next)), "{media:?}");
}

#[test]
fn deleting_a_finished_job_removes_its_files() {
    let service = Service::start();
    let id = service.create(&short_job());
    service.completed(&id);
    assert_eq!(files_below(&service.data().join("media")).len(), 3, "a video and its two pictures");
    let path = format!("/v1/videos/{id}");
    assert_eq!(service.request("DELETE", &path, &[], Body::Nothing).status, 200);
    assert_eq!(service.request("DELETE", &path, &[], Body::Nothing).error().0, 404);
    assert_eq!(service.get(&format!("{path}/content")).error().0, 404);
    until("the files to go", || files_below(&service.data().join("media")).is_empty().then_some(()));
}
