//! Workers that are pinned to one partition, and the inputs that travel to them.

use clapboard_jobs::{JobState, Tenant};
use serde_json::{Value, json};

use super::cluster::Cluster;
use crate::support::{Body, Media, short_job, until};

/// A short job that refers to a picture.
fn with_reference(picture: &str) -> Value {
    let mut job = short_job();
    job["image_reference"] = json!([{ "image_url": picture }]);
    job["extra_params"] = json!({ "task": "ref2va" });
    job
}

fn served(cluster: &Cluster) -> Value {
    cluster.request(0, "GET", "/ready", &[], Body::Nothing).expect("the API answers").json()["partitions"].clone()
}

#[test]
fn a_job_waits_for_a_worker_of_its_partition_and_its_inputs_with_it() {
    let mut cluster = Cluster::start();
    let media = Media::new();
    let file = media.picture("reference.png", "96x64").display().to_string();
    let picture = media.data_url("reference.png", "image/png");
    let expected = cluster.generated_from(&short_job(), &["--image", &file]);

    let waits = cluster.create(&with_reference(&picture));
    let runs = cluster.create(&short_job());
    cluster.completed(&runs);
    let job = cluster.truth.job(&Tenant::default(), &waits);
    assert_eq!((job.state, job.fence.0), (JobState::Queued, 0), "a worker of the other partition had it");
    assert_eq!(served(&cluster), json!({ "fl2va": true, "ref2va": false }));
    let inputs = |cluster: &Cluster| cluster.s3.keys().into_iter().filter(|key| key.contains("/input-")).count();
    assert_eq!(inputs(&cluster), 1);

    cluster.add_worker(&["--partition", "ref2va"]);
    let video = cluster.completed(&waits);
    assert_eq!(video["task"], "ref2va");
    assert!(cluster.download(&waits) == expected);
    until("both partitions to be served", || {
        (served(&cluster) == json!({ "fl2va": true, "ref2va": true })).then_some(())
    });
    let jobs = [waits, runs].map(|id| (Tenant::default(), id));
    cluster.objects_become(&cluster.truth.named_keys(&jobs));
}

#[test]
fn inputs_go_with_a_job_that_is_cancelled_or_deleted_before_it_ran() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&[]);
    cluster.add_scheduler();
    let media = Media::new();
    media.picture("reference.png", "96x64");
    let picture = media.data_url("reference.png", "image/png");
    let (cancelled, deleted) = (cluster.create(&with_reference(&picture)), cluster.create(&with_reference(&picture)));
    assert_eq!(cluster.s3.keys().len(), 2);
    let status = cluster.command("jobs").args(["cancel", &cancelled]).status().unwrap();
    assert!(status.success());
    let path = format!("/v1/videos/{deleted}");
    let reply = cluster.request(0, "DELETE", &path, &[], Body::Nothing).expect("the API answers");
    assert_eq!(reply.status, 200);
    cluster.objects_become(&std::collections::BTreeSet::new());
}
