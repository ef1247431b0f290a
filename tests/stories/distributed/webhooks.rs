//! Webhooks whose sender dies.

use super::cluster::Cluster;
use crate::support::{Receiver, short_job, until};

#[test]
fn a_scheduler_that_dies_while_it_tells_is_followed_by_one_that_tells_again_under_the_same_id() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&["--allow-http-webhook-host", "127.0.0.1"]);
    cluster.add_worker(&[]);
    let receiver = Receiver::start();
    let mut job = short_job();
    job["webhook_url"] = receiver.url("/hang").into();
    let id = cluster.create(&job);
    cluster.completed(&id);
    let first = cluster.add_scheduler();
    let told = until("the first try", || receiver.heard("/hang").pop());
    cluster.schedulers[first].kill();
    cluster.add_scheduler();
    let again = until("the second try", || receiver.heard("/hang").get(1).cloned());
    assert_eq!(again.header("webhook-id"), told.header("webhook-id"));
    assert_eq!(again.body["data"]["id"], id.as_str());
}
