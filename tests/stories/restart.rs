//! What happens to jobs when their service ends.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Service, assert_video, files_below, long_job, short_job, until};

#[test]
fn a_job_whose_service_was_killed_runs_again_and_completes_as_the_same_job() {
    let mut service = Service::start();
    let running = service.create(&long_job());
    let waiting = service.create(&short_job());
    let before = service.in_its_middle(&running);
    assert_eq!(before["attempt"], 1);
    service.kill();
    service.restart();

    let video = service.completed(&running);
    for fact in ["id", "created_at", "seed", "prompt", "num_frames"] {
        assert_eq!(video[fact], before[fact], "{fact}");
    }
    assert_eq!(video["attempt"], 2, "a crash counts as an attempt");
    let file = service.data().join("video.mp4");
    std::fs::write(&file, service.download(&running)).unwrap();
    assert_video(&file, (96, 64), 56);

    assert_eq!(service.completed(&waiting)["attempt"], 1, "a job that only waited has lost nothing");
    assert!(files_below(&service.data().join("scratch")).is_empty());
    assert_eq!(files_below(&service.data().join("media")).len(), 6, "two videos, each with two pictures");
}

#[test]
fn a_drained_service_hands_its_job_back_and_exits_well() {
    let mut service = Service::start();
    let id = service.create(&long_job());
    service.in_its_middle(&id);
    service.terminate();
    let status = service.wait();
    assert!(status.success(), "{status}:\n{}", service.log());
    assert!(files_below(&service.data().join("scratch")).is_empty());

    service.restart();
    assert_ne!(service.video(&id)["status"], "completed", "the drain waited for the job's end");
    let video = service.completed(&id);
    assert_eq!(video["attempt"], 1, "a drain does not count as an attempt");
}

#[test]
fn a_finished_video_outlives_its_process() {
    let mut service = Service::start();
    let id = service.create(&short_job());
    service.completed(&id);
    let file = service.download(&id);
    service.kill();
    service.restart();
    assert_eq!(service.video(&id)["status"], "completed");
    assert!(service.download(&id) == file);
}

#[test]
fn a_second_signal_ends_the_process_at_once_and_its_last_line_is_told() {
    let mut service = Service::start_with(&["--closing-grace", "60s"]);
    // A request in flight, whose body never comes, keeps the drain from ending.
    let address = service.url().strip_prefix("http://").unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let head = "POST /v1/videos HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9";
    write!(client, "{head}\r\nexpect: 100-continue\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100", "it asks for the body");
    service.terminate();
    until("the drain", || service.log().contains("a second signal exits at once").then_some(()));
    service.terminate();
    assert_eq!(service.wait().code(), Some(143));
    assert!(service.log().contains("second signal: exiting at once"), "{}", service.log());
}
