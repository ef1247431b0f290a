use clapboard_jobs::{JobEvent, JobState};
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::*;

const ID: &str = "x'000102030405060708090a0b0c0d0e0f'";

/// Runs one statement whose parts all stand in this file.
async fn run(db: &mut SqliteConnection, statement: &str) -> Result<u64, sqlx::Error> {
    sqlx::query(AssertSqlSafe(statement)).execute(db).await.map(|done| done.rows_affected())
}

async fn insert(db: &mut SqliteConnection) {
    let statement = format!(
        "insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rank, created_at, run_at, max_attempts)
         values ({ID}, 't', 'm', 'fl2va', 1, '{{}}', 1.0, 1.0, 0, 0, 3)"
    );
    assert_eq!(run(db, &statement).await.unwrap(), 1);
}

/// The columns that the checks want in each state, all of them set.
fn columns(state: JobState) -> String {
    let held = "fence = fence + 1, claim_token = x'01', worker = x'02', lease_expires_at = 9";
    let free = "claim_token = null, worker = null, lease_expires_at = null";
    let result =
        "result_key = 'k', result_size_bytes = 1, result_sha256 = printf('%064d', 0), report = '{}', percent = 100";
    let rest = match state {
        JobState::Queued => free.to_owned(),
        JobState::Running => held.to_owned(),
        JobState::Completed => format!("{free}, finished_at = 9, {result}"),
        JobState::Failed => format!("{free}, finished_at = 9, error_code = 'internal_error', error_message = 'm'"),
        JobState::Cancelled => format!("{free}, finished_at = 9, error_code = 'cancelled', error_message = 'm'"),
    };
    format!("state = '{state}', {rest}")
}

async fn update(db: &mut SqliteConnection, set: &str) -> Result<u64, sqlx::Error> {
    run(db, &format!("update jobs set {set}")).await
}

#[tokio::test]
async fn the_tables_follow_exactly_the_arrows_of_the_transition_function() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    for from in JobState::ALL {
        for to in JobState::ALL.into_iter().filter(|&to| to != from) {
            let mut db = store.begin("trying a transition").await.unwrap();
            insert(&mut db).await;
            if from != JobState::Queued {
                update(&mut db, &columns(JobState::Running)).await.unwrap();
            }
            if from != JobState::Running && from != JobState::Queued {
                update(&mut db, &columns(from)).await.unwrap();
            }
            // The columns of the state before must not be what refuses it.
            let blank = "finished_at = null, error_code = null, error_message = null, result_key = null, \
                         result_size_bytes = null, result_sha256 = null, report = null, percent = 0";
            let mut set = columns(to);
            for column in
                blank.split(", ").filter(|column| !set.contains(column.split(' ').next().unwrap())).collect::<Vec<_>>()
            {
                set = format!("{set}, {column}");
            }
            let moved = update(&mut db, &set).await;
            let drawn = JobEvent::ALL.into_iter().any(|event| from.on(event) == Ok(to));
            assert_eq!(moved.is_ok(), drawn, "{from} -> {to}: {moved:?}");
            if let Err(error) = moved {
                assert!(error.to_string().contains("no arrow leads"), "{from} -> {to}: {error}");
            }
            db.rollback().await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_status_column_is_what_a_client_is_told() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    for state in JobState::ALL {
        for begun in [false, true] {
            if begun && state == JobState::Queued {
                continue;
            }
            let mut db = store.begin("reading a status").await.unwrap();
            insert(&mut db).await;
            if state != JobState::Queued {
                update(&mut db, &columns(JobState::Running)).await.unwrap();
            }
            if begun {
                update(&mut db, "begun_at = 5").await.unwrap();
            }
            if state.is_final() {
                update(&mut db, &columns(state)).await.unwrap();
            }
            let status: String = sqlx::query_scalar("select status from jobs").fetch_one(&mut *db).await.unwrap();
            assert_eq!(status, state.status(begun).as_str(), "{state}, begun: {begun}");
            db.rollback().await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_tables_refuse_nonsense() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let mut db = store.begin("trying nonsense").await.unwrap();
    insert(&mut db).await;
    for (set, why) in [
        ("state = 'done'", "no arrow leads"),
        ("state = 'running'", "CHECK"),
        ("claim_token = x'01'", "CHECK"),
        ("begun_at = 5", "CHECK"),
        ("cancel_requested_at = 5", "CHECK"),
        ("finished_at = 5", "CHECK"),
        ("result_key = 'k'", "CHECK"),
        ("error_code = 'internal_error', error_message = 'm'", "CHECK"),
        ("percent = 100", "CHECK"),
        ("percent = 101", "CHECK"),
        ("attempt = 1", "CHECK"),
        ("spec = 'not json'", "CHECK"),
        ("created_at = 'yesterday'", "cannot store TEXT"),
        ("fence = -1", "the fence of a job only grows"),
    ] {
        let error = update(&mut db, set).await.unwrap_err();
        assert!(error.to_string().contains(why), "{set}: {error}");
    }
    update(&mut db, &columns(JobState::Running)).await.unwrap();
    let cancelled_as_failed = columns(JobState::Failed).replace("internal_error", "cancelled");
    let error = update(&mut db, &cancelled_as_failed).await.unwrap_err();
    assert!(error.to_string().contains("CHECK"), "{error}");
    let inserted = run(
        &mut db,
        "insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rank, created_at, run_at,
             max_attempts, state, finished_at, error_code, error_message)
         values (x'ff', 't', 'm', 'fl2va', 1, '{}', 1.0, 1.0, 0, 0, 3, 'failed', 1, 'internal_error', 'm')",
    )
    .await;
    assert!(inserted.unwrap_err().to_string().contains("a job begins queued"));
}

#[tokio::test]
async fn the_queries_of_every_day_use_their_indexes() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    for (query, index) in [
        (
            "select id from jobs where state = 'queued' and partition = 'p' and run_at <= 1 order by rank, id limit 1",
            "jobs_waiting",
        ),
        (
            "select id from jobs where state = 'running' and lease_expires_at <= 1 order by lease_expires_at limit 9",
            "jobs_leased",
        ),
        (
            "select id from jobs where tenant = 't' and (created_at, id) < (1, x'00') order by created_at desc, id desc limit 9",
            "jobs_listed",
        ),
        ("select min(run_at) from jobs where state = 'queued' and run_at > 1", "jobs_due"),
        (
            "select key from objects where standing = 'garbage' and collect_after <= 1 order by collect_after",
            "objects_to_collect",
        ),
    ] {
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(format!("explain query plan {query}")))
            .fetch_all(store.readers())
            .await
            .unwrap();
        let text = plan.into_iter().map(|step| step.3).collect::<Vec<String>>().join("; ");
        assert!(text.contains(index) && !text.contains("TEMP B-TREE"), "{query}: {text}");
    }
}
