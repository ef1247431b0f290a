use clapboard_jobs::{CapacityClass, JobEvent, JobState};
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::*;

const ID: &str = "x'000102030405060708090a0b0c0d0e0f'";

/// Runs one statement whose parts all stand in this file.
async fn run(db: &mut SqliteConnection, statement: &str) -> Result<u64, sqlx::Error> {
    sqlx::query(AssertSqlSafe(statement)).execute(db).await.map(|done| done.rows_affected())
}

async fn insert(db: &mut SqliteConnection) {
    let statement = format!(
        "insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rows, rank, created_at,
             run_at, max_attempts)
         values ({ID}, 't', 'm', 'fl2va', 1, '{{}}', 1.0, 1, 1.0, 0, 0, 3)"
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
        ("spared = 1", "CHECK"),
        ("spec = 'not json'", "CHECK"),
        ("created_at = 'yesterday'", "cannot store TEXT"),
        ("fence = -1", "the fence of a job only grows"),
        ("rows = -1", "CHECK"),
        ("priority = 'high'", "CHECK"),
        ("checkpoint_key = 'k'", "CHECK"),
        ("result_expires_at = 5", "CHECK"),
        ("hook_url = 'u'", "CHECK"),
        ("hook_notices = '[]'", "CHECK"),
        ("hook_url = 'u', hook_notices = '[\"video.lost\"]'", "CHECK"),
        ("hook_url = 'u', hook_notices = 'video.failed'", "CHECK"),
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
        "insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rows, rank, created_at, run_at,
             max_attempts, state, finished_at, error_code, error_message)
         values (x'ff', 't', 'm', 'fl2va', 1, '{}', 1.0, 1, 1.0, 0, 0, 3, 'failed', 1, 'internal_error', 'm')",
    )
    .await;
    assert!(inserted.unwrap_err().to_string().contains("a job begins queued"));
    for tenant in ["", "ünï", "two words", "x".repeat(65).as_str()] {
        let limited = run(&mut db, &format!("insert into tenants (tenant, weight) values ('{tenant}', 1.0)")).await;
        assert!(limited.unwrap_err().to_string().contains("CHECK"), "{tenant}");
        let key = format!(
            "insert into api_keys (id, hash, tenant, scopes, created_at) values (zeroblob(16), zeroblob(32), '{tenant}', '[]', 0)"
        );
        assert!(run(&mut db, &key).await.unwrap_err().to_string().contains("CHECK"), "{tenant}");
    }
    for (id, hash, rate, legal) in
        [(16, 32, "null", true), (15, 32, "null", false), (16, 31, "null", false), (16, 32, "0", false)]
    {
        let key = format!(
            "insert into api_keys (id, hash, tenant, scopes, requests_per_minute, created_at)
             values (zeroblob({id}), zeroblob({hash}), 'Team_a-1', '[]', {rate}, 0)"
        );
        assert_eq!(run(&mut db, &key).await.is_ok(), legal, "{id}, {hash}, {rate}");
    }
    for (notices, legal) in [
        ("[]", true),
        ("[\"video.failed\"]", true),
        ("[\"video.failed\",\"video.completed\"]", true),
        ("[\"video.lost\"]", false),
        ("[\"video.failed\",\"video.failed\"]", false),
        ("video.failed", false),
    ] {
        let endpoint = format!(
            "insert into endpoints (id, tenant, name, url, notices, secret, created_at, updated_at)
             values (randomblob(16), 't', '', 'u', '{notices}', 's', 0, 0)"
        );
        assert_eq!(run(&mut db, &endpoint).await.is_ok(), legal, "{notices}");
    }
    for weight in ["0.0", "-1.0", "9e999", "0.0001", "1001.0"] {
        let weighed = run(&mut db, &format!("insert into tenants (tenant, weight) values ('t', {weight})")).await;
        assert!(weighed.unwrap_err().to_string().contains("CHECK"), "{weight}");
    }
}

#[tokio::test]
async fn an_object_has_a_standing_and_only_garbage_a_moment() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let mut db = store.begin("trying nonsense").await.unwrap();
    for (standing, moment, legal) in [
        ("expected", "null", true),
        ("named", "null", true),
        ("input", "null", true),
        ("garbage", "1", true),
        ("input", "1", false),
        ("garbage", "null", false),
        ("lost", "null", false),
    ] {
        let statement = format!(
            "insert into objects (key, job_id, standing, collect_after) values ('{standing} {moment}', {ID}, '{standing}', {moment})"
        );
        assert_eq!(run(&mut db, &statement).await.is_ok(), legal, "{statement}");
    }
}

#[tokio::test]
async fn the_queries_of_every_day_use_their_indexes() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    for (query, index) in [
        (
            "select count(*) from jobs where state = 'queued' and partition = 'p' and capacity = 1 and (rank, id) < (1.0, x'00')",
            "jobs_waiting",
        ),
        (
            "select id from jobs where state = 'queued' and partition = 'p' and capacity = 1 and tenant = 't' and run_at <= 1
             order by rank, id limit 1",
            "jobs_heads",
        ),
        ("select count(*) from jobs where state = 'running' and tenant = 't'", "jobs_running"),
        ("select 1 from jobs where state = 'queued' and tenant = 't' limit 9", "jobs_queued"),
        (
            "select id from jobs where state = 'running' and lease_expires_at <= 1 order by lease_expires_at limit 9",
            "jobs_leased",
        ),
        (
            "select id from jobs where tenant = 't' and (created_at, id) < (1, x'00') order by created_at desc, id desc limit 9",
            "jobs_listed",
        ),
        (
            "select id from jobs where tenant = 't' and status = 'failed' and (created_at, id) > (1, x'00')
             order by created_at, id limit 9",
            "jobs_listed_by_status",
        ),
        ("select min(run_at) from jobs where state = 'queued' and run_at > 1", "jobs_due"),
        (
            "select min(result_expires_at) from jobs where result_key is not null and result_expires_at > 1",
            "jobs_with_results",
        ),
        ("select min(finished_at) from jobs where finished_at is not null and finished_at > 1", "jobs_ended"),
        (
            "select key from objects where standing = 'garbage' and collect_after <= 1 order by collect_after",
            "objects_to_collect",
        ),
        ("select id from api_keys where hash = x'00' and revoked_at is null", "sqlite_autoindex_api_keys_2"),
        (
            "select id from deliveries where state = 'pending' and endpoint_id is not null and endpoint_id = x'00'
                 and next_try_at <= 1 order by next_try_at, id limit 9",
            "deliveries_pending",
        ),
        (
            "select id from deliveries where state = 'pending' and endpoint_id is null and tenant = 't' and next_try_at <= 1
             order by next_try_at, id limit 9",
            "deliveries_pending_of_jobs",
        ),
        (
            "select id from deliveries where tenant = 't' and state = 'dead' and (created_at, id) < (1, x'00')
             order by created_at desc, id desc limit 9",
            "deliveries_listed",
        ),
        (
            "select id from deliveries where endpoint_id is not null and endpoint_id = x'00' and state = 'dead'
                 and (created_at, id) < (1, x'00') and +tenant = 't'
             order by created_at desc, id desc limit 9",
            "deliveries_of_endpoint",
        ),
        (
            "select 1 from deliveries indexed by deliveries_pending_tests where state = 'pending' and is_test and endpoint_id = x'00' and tenant = 't'",
            "deliveries_pending_tests",
        ),
        (
            "select id from deliveries where state <> 'pending' and settled_at <= 1 order by settled_at limit 9",
            "deliveries_settled",
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

#[tokio::test]
async fn no_taker_of_deliveries_looks_through_a_backlog() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let statement = include_str!("../../queries/due_receivers.sql");
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(format!("explain query plan {statement}")))
        .fetch_all(store.readers())
        .await
        .unwrap();
    let of_deliveries: Vec<&str> =
        plan.iter().map(|step| step.3.as_str()).filter(|step| step.contains("deliveries")).collect();
    assert!(of_deliveries.len() >= 6, "{of_deliveries:?}");
    for step in of_deliveries {
        let narrow = ["INDEX deliveries_pending", "INDEX deliveries_held"].iter().any(|index| step.contains(index));
        assert!(step.starts_with("SEARCH") && narrow, "{step}");
    }
}

#[tokio::test]
async fn the_capacity_column_is_the_class_of_the_rows() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let mut db = store.begin("reading a class").await.unwrap();
    insert(&mut db).await;
    let bounds = CapacityClass::all().flat_map(|class| [class.max_rows() - 1, class.max_rows(), class.max_rows() + 1]);
    for rows in bounds.chain([0, 1 << 40]) {
        update(&mut db, &format!("rows = {rows}")).await.unwrap();
        let class: u8 = sqlx::query_scalar("select capacity from jobs").fetch_one(&mut *db).await.unwrap();
        assert_eq!(class, CapacityClass::of_rows(rows).number(), "{rows}");
    }
}

/// The steps of a statement's plan that touch the table of jobs, and how often something is sorted.
async fn plan(store: &SqliteStore, statement: &str) -> (Vec<String>, usize) {
    let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(format!("explain query plan {statement}")))
        .fetch_all(store.readers())
        .await
        .unwrap();
    let steps: Vec<String> = plan.into_iter().map(|step| step.3).collect();
    let sorted = steps.iter().filter(|step| step.contains("TEMP B-TREE FOR ORDER BY")).count();
    let touches = |step: &String| matches!(step.split(' ').nth(1), Some("j" | "k" | "r"));
    (steps.into_iter().filter(touches).collect(), sorted)
}

#[tokio::test]
async fn no_claim_looks_through_a_backlog() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    for statement in [include_str!("../heads/first.sql"), include_str!("../heads/ready.sql")] {
        let (steps, sorted) = plan(&store, statement).await;
        assert!(steps.len() >= 5, "{steps:#?}");
        for step in &steps {
            let by_head = step.contains("jobs_heads (partition=? AND capacity=?");
            let by_id = step.ends_with("(id=?)");
            let by_tenant = step.contains("jobs_running (tenant=?)");
            assert!(step.starts_with("SEARCH") && (by_head || by_id || by_tenant), "{step}");
        }
        // The heads are sorted, not the jobs behind them.
        assert!(sorted <= 1, "{steps:#?}");
    }
}
