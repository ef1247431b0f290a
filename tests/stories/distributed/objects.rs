//! A media store that refuses, hangs and asks for a key.

use clapboard_jobs::{Phase, Tenant};
use clapboard_testkit::Mode;

use super::cluster::Cluster;
use crate::support::{assert_video, short_job, until};

#[test]
fn a_wrong_key_is_found_at_the_start() {
    let cluster = Cluster::servers();
    let scratch = cluster.folder().join("scratch");
    let commands =
        [cluster.api_command("127.0.0.1:0", &[]), cluster.command("scheduler"), cluster.worker_command(&scratch, &[])];
    for mut command in commands {
        let output = command.env("AWS_SECRET_ACCESS_KEY", "notthekey").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("credentials") && !said.contains("notthekey"), "{said}");
    }
}

#[test]
fn a_video_waits_on_its_worker_while_the_media_store_refuses_and_hangs() {
    for mode in [Mode::Refuse, Mode::Hang] {
        let cluster = Cluster::start();
        let id = cluster.create(&short_job());
        until("the job to begin", || cluster.truth.job(&Tenant::default(), &id).begun_at);
        cluster.s3_path.set(mode);
        until("the upload", || {
            let job = cluster.truth.job(&Tenant::default(), &id);
            assert!(!job.state.is_final(), "too late: {job:?}");
            (job.progress.phase == Phase::Upload).then_some(())
        });
        cluster.s3_path.set(Mode::Pass);
        assert_eq!(cluster.completed(&id)["attempt"], 1, "the video was made again");
        let file = cluster.folder().join("video.mp4");
        std::fs::write(&file, cluster.download(&id)).unwrap();
        assert_video(&file, (64, 32), 22);
    }
}
