//! PostgreSQL that cannot be reached.

use clapboard_jobs::{JobState, Tenant};

use super::cluster::Cluster;
use crate::support::{Body, long_job, short_job, until};

#[test]
fn nothing_starts_without_its_database_and_says_so() {
    let mut cluster = Cluster::servers();
    cluster.postgres.stop();
    let scratch = cluster.folder().join("scratch");
    let commands = [
        cluster.command("migrate"),
        cluster.api_command("127.0.0.1:0", &[]),
        cluster.command("scheduler"),
        cluster.worker_command(&scratch, &[]),
    ];
    for mut command in commands {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("clapboard: ") && last.contains("database"), "{said}");
    }
}

#[test]
fn a_database_without_the_schema_is_told_how_to_get_it() {
    let cluster = Cluster::servers();
    // Every server has this one, and nothing is in it.
    let empty = format!("{}postgres", cluster.postgres.url().strip_suffix("clapboard").unwrap());
    let output = cluster.command("scheduler").env("DATABASE_URL", empty).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("clapboard migrate"), "{said}");
}

#[test]
fn while_the_database_is_away_the_api_says_so_and_the_worker_keeps_what_it_makes() {
    let mut cluster = Cluster::servers();
    cluster.add_api(&[]);
    cluster.add_scheduler();
    // A lease that outlives the outage.
    cluster.add_worker(&["--lease", "120s"]);
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    cluster.postgres.kill();

    let refused = cluster.request(0, "POST", "/v1/videos", &[], Body::Json(&short_job())).expect("the API answers");
    assert_eq!(refused.error().0, 503);
    assert!(refused.header("retry-after").is_some(), "{:?}", refused.headers);
    let refused = cluster.request(0, "GET", &format!("/v1/videos/{id}"), &[], Body::Nothing).expect("the API answers");
    assert_eq!(refused.error().0, 503);
    cluster.workers[0].logs("could not write how the attempt ended");
    cluster.postgres.start_again();

    assert_eq!(cluster.completed(&id)["attempt"], 1, "the finished video was made again");
    let next = cluster.create(&short_job());
    cluster.completed(&next);
}

#[test]
fn a_short_outage_of_the_database_costs_nothing_but_time() {
    let mut cluster = Cluster::start();
    let id = cluster.create(&long_job());
    cluster.checkpointed(&id);
    cluster.postgres.kill();
    cluster.postgres.start_again();
    cluster.completed(&id);
    let job = until("the row", || {
        cluster.truth.ask(async |store| store.get(&Tenant::default(), id.parse().unwrap()).await).flatten()
    });
    assert_eq!(job.state, JobState::Completed);
    cluster.objects_become(&cluster.truth.named_keys(&[(Tenant::default(), id)]));
}
