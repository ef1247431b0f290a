use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clapboard_jobs::{JobPage, ListQuery, Order, Status};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::*;
use crate::open::MIGRATOR;

/// Every statement of the store, as the macros have checked them.
fn statements() -> Vec<String> {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    let read = |file: PathBuf| -> serde_json::Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    let files = fs::read_dir(cache).unwrap().map(|entry| read(entry.unwrap().path()));
    files.map(|statement| statement["query"].as_str().unwrap().to_owned()).collect()
}

/// A list finds its first job, and the next, in the index of what is asked for: it neither looks through the table nor sorts.
#[tokio::test]
async fn every_list_goes_by_an_index_in_its_order() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let statements = statements();
    for (part, count, step) in [
        ("indexed by jobs_listed where", 2, "SEARCH jobs USING INDEX jobs_listed (tenant=?"),
        ("indexed by jobs_listed_by_status", 2, "SEARCH jobs USING INDEX jobs_listed_by_status (tenant=? AND status=?"),
        (
            "indexed by jobs_listed_by_model",
            2,
            "SEARCH jobs USING INDEX jobs_listed_by_model (tenant=? AND model=? AND status=?",
        ),
        ("join job_metadata", 2, "SEARCH noted USING PRIMARY KEY (owner=? AND key=? AND value=?"),
        ("from job_metadata where owner", 1, "SEARCH job_metadata USING PRIMARY KEY (owner=? AND key=? AND value=?"),
    ] {
        let of_kind: Vec<&String> = statements.iter().filter(|statement| statement.contains(part)).collect();
        assert_eq!(of_kind.len(), count, "{part}");
        for statement in of_kind {
            let plan: Vec<(i64, i64, i64, String)> =
                sqlx::query_as(AssertSqlSafe(format!("explain query plan {statement}")))
                    .fetch_all(store.readers())
                    .await
                    .unwrap();
            let steps: Vec<&str> = plan.iter().map(|row| row.3.as_str()).collect();
            assert!(steps.iter().any(|found| found.starts_with(step)), "{part}: {steps:#?}");
            // Only what the request itself holds is looked through.
            let looks = |found: &&str| {
                found.starts_with("SCAN") && !["w ", "h ", "(subquery"].iter().any(|own| found[5..].starts_with(own))
            };
            assert!(!steps.iter().any(looks) && !steps.iter().any(|found| found.contains("TEMP B-TREE")), "{steps:#?}");
        }
    }
}

/// Deadlines are looked for among the jobs that have one.
#[tokio::test]
async fn every_look_at_deadlines_goes_by_their_index() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let statements = statements();
    let of_deadlines: Vec<&String> =
        statements.iter().filter(|one| one.contains("start_by is not null and finished_at is null")).collect();
    assert_eq!(of_deadlines.len(), 2);
    for statement in of_deadlines {
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(AssertSqlSafe(format!("explain query plan {statement}")))
                .fetch_all(store.readers())
                .await
                .unwrap();
        let text = plan.into_iter().map(|step| step.3).collect::<Vec<String>>().join("; ");
        assert!(text.contains("jobs_to_begin") && !text.contains("TEMP B-TREE"), "{statement}: {text}");
    }
}

/// A list by model reads each status by itself: a job that goes from one to another meanwhile is in it once all the same.
#[tokio::test]
async fn a_job_that_begins_while_its_model_is_listed_is_listed_once() {
    const MOVES: [&str; 2] = [
        "update jobs set state = 'running', fence = fence + 1, claim_token = x'00000000000070008000000000000002',
             worker = x'00000000000070008000000000000003', lease_expires_at = 9, begun_at = 5",
        "update jobs set state = 'queued', claim_token = null, worker = null, lease_expires_at = null, begun_at = null",
    ];
    let folder = TempDir::new().unwrap();
    let store = Arc::new(open(&folder.path().join("jobs.db")).await);
    let row = "insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rows, rank, created_at, run_at,
            max_attempts)
        values (x'00000000000070008000000000000001', 'default', 'm', 'fl2va', 1, '{}', 1.0, 1, 1.0, 1, 1, 3)";
    let change = async |store: &SqliteStore, statement: &'static str| {
        let mut tx = store.begin("moving the job").await.unwrap();
        sqlx::query(statement).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    };
    change(&store, row).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mover = tokio::spawn({
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        async move {
            while !is_over.load(Ordering::Relaxed) {
                for statement in MOVES {
                    change(&store, statement).await;
                }
            }
        }
    });
    let of_model = ListQuery { model: Some("m".to_owned()), ..ListQuery::default() };
    let mut seen = HashSet::new();
    for _ in 0..500 {
        let jobs = store.list(&Tenant::default(), &of_model).await.unwrap().jobs;
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        seen.insert(jobs[0].status());
    }
    is_over.store(true, Ordering::Relaxed);
    mover.await.unwrap();
    assert_eq!(seen.len(), 2, "the job was moved while it was listed");
}

fn noted(key: &str, value: &str) -> Metadata {
    Metadata::new([(key.to_owned(), value.to_owned())].into()).unwrap()
}

/// So many jobs have a pair that a list of them and of something else goes another way, which finds the same.
#[tokio::test]
async fn what_many_have_noted_is_found_as_well() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("jobs.db")).await;
    let many = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 10050)
        insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rows, rank, created_at, run_at,
            max_attempts, metadata)
        select randomblob(16), 'default', iif(n % 5000 = 1, 'rare', 'm'), 'fl2va', 1, '{}', 1.0, 1, n, n, n, 3,
            iif(n % 4000 = 2, '{\"app\":\"web\",\"batch\":\"one\"}', '{\"app\":\"web\"}')
        from numbers";
    let mut tx = store.begin("filling the table").await.unwrap();
    sqlx::query(many).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let list = async |query: ListQuery| -> (Vec<i64>, bool) {
        let JobPage { jobs, has_more } = store.list(&Tenant::default(), &query).await.unwrap();
        (jobs.iter().map(|job| job.created_at.0).collect(), has_more)
    };
    let app = ListQuery { metadata: noted("app", "web"), limit: 2, ..ListQuery::default() };
    for (query, expected) in [
        (app.clone(), (vec![10_050, 10_049], true)),
        (ListQuery { order: Order::Ascending, ..app.clone() }, (vec![1, 2], true)),
        (ListQuery { status: Some(Status::Queued), ..app.clone() }, (vec![10_050, 10_049], true)),
        (ListQuery { status: Some(Status::Completed), ..app.clone() }, (vec![], false)),
        (ListQuery { model: Some("rare".to_owned()), ..app.clone() }, (vec![10_001, 5_001], true)),
        (ListQuery { model: Some("none".to_owned()), ..app.clone() }, (vec![], false)),
        (ListQuery { metadata: noted("batch", "one"), ..app.clone() }, (vec![8_002, 4_002], true)),
        (
            ListQuery {
                metadata: noted("batch", "one"),
                order: Order::Ascending,
                model: Some("m".to_owned()),
                ..app.clone()
            },
            (vec![2, 4_002], true),
        ),
        (ListQuery { metadata: noted("batch", "one"), model: Some("rare".to_owned()), ..app }, (vec![], false)),
    ] {
        assert_eq!(list(query.clone()).await, expected, "{query:?}");
    }
}

/// What was noted of jobs before there was an index of it is found, and goes with its job.
#[tokio::test]
async fn metadata_of_before_are_found() {
    let (_folder, path) = file();
    let pool =
        SqlitePool::connect_with(SqliteConnectOptions::new().filename(&path).create_if_missing(true)).await.unwrap();
    MIGRATOR.run_to(4, &pool).await.unwrap();
    let rows = "insert into jobs (id, tenant, model, partition, spec_version, spec, cost_tflop, rows, rank, created_at, run_at,
            max_attempts, metadata)
        values
            (x'00000000000070008000000000000001', 'default', 'm', 'fl2va', 1, '{}', 1.0, 1, 1.0, 1, 1, 3, '{\"batch\":\"ä\"}'),
            (x'00000000000070008000000000000002', 'default', 'm', 'fl2va', 1, '{}', 1.0, 1, 1.0, 2, 2, 3, null)";
    sqlx::raw_sql(rows).execute(&pool).await.unwrap();
    pool.close().await;
    let store = open(&path).await;
    let query = ListQuery { metadata: noted("batch", "ä"), ..ListQuery::default() };
    let found = store.list(&Tenant::default(), &query).await.unwrap().jobs;
    assert_eq!(found.iter().map(|job| job.created_at.0).collect::<Vec<_>>(), [1]);
    store.delete(&Tenant::default(), found[0].id).await.unwrap().unwrap();
    let left: i64 = sqlx::query_scalar("select count(*) from job_metadata").fetch_one(store.readers()).await.unwrap();
    assert_eq!(left, 0);
}
