use std::collections::BTreeSet;

use clapboard_jobs::{JobEvent, JobState};
use sqlx::PgConnection;

use super::*;

/// A state that no arrow leads to, where the trigger that says so is off.
const WITHOUT_ARROWS: &str = "state = 'lost'";
const ID: &str = "'00010203-0405-0607-0809-0a0b0c0d0e0f'";

/// Runs one statement whose parts all stand in this file.
async fn run(db: &mut PgConnection, statement: &str) -> Result<u64, sqlx::Error> {
    sqlx::query(AssertSqlSafe(statement)).execute(db).await.map(|done| done.rows_affected())
}

async fn insert(db: &mut PgConnection) {
    let statement = format!(
        "insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec, cost_tflop,
             rank, virtual_finish, created_at, run_at, max_attempts)
         values ({ID}, 't', 'm', 'fl2va', 0, 1, 'normal', 1, '{{}}', 1.0, 1.0, 1.0, 0, 0, 3)"
    );
    assert_eq!(run(db, &statement).await.unwrap(), 1);
}

/// The columns that the checks want in each state, all of them set.
fn columns(state: JobState) -> String {
    let held = "fence = fence + 1, claim_token = gen_random_uuid(), worker = gen_random_uuid(), lease_expires_at = 9";
    let free = "claim_token = null, worker = null, lease_expires_at = null";
    let result =
        "result_key = 'k', result_size_bytes = 1, result_sha256 = repeat('0', 64), report = '{}', percent = 100";
    let rest = match state {
        JobState::Queued => free.to_owned(),
        JobState::Running => held.to_owned(),
        JobState::Completed => format!("{free}, finished_at = 9, {result}"),
        JobState::Failed => format!("{free}, finished_at = 9, error_code = 'internal_error', error_message = 'm'"),
        JobState::Cancelled => format!("{free}, finished_at = 9, error_code = 'cancelled', error_message = 'm'"),
    };
    format!("state = '{state}', {rest}")
}

async fn update(db: &mut PgConnection, set: &str) -> Result<u64, sqlx::Error> {
    run(db, &format!("update jobs set {set}")).await
}

async fn bring_to(db: &mut PgConnection, state: JobState) {
    insert(db).await;
    if state != JobState::Queued {
        update(db, &columns(JobState::Running)).await.unwrap();
    }
    if state.is_final() {
        update(db, &columns(state)).await.unwrap();
    }
}

#[tokio::test]
async fn the_tables_follow_exactly_the_arrows_of_the_transition_function() {
    let harness = harness().await;
    for from in JobState::ALL {
        for to in JobState::ALL.into_iter().filter(|&to| to != from) {
            let mut db = harness.store.pool().begin().await.unwrap();
            bring_to(&mut db, from).await;
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
async fn the_status_of_a_list_is_what_a_client_is_told() {
    let harness = harness().await;
    for state in JobState::ALL {
        for begun in [false, true] {
            let status: String = sqlx::query_scalar("select job_status($1, $2)")
                .bind(state.as_str())
                .bind(begun)
                .fetch_one(harness.store.pool())
                .await
                .unwrap();
            assert_eq!(status, state.status(begun).as_str(), "{state}, begun: {begun}");
        }
    }
}

#[tokio::test]
async fn the_tables_refuse_nonsense() {
    let harness = harness().await;
    let checkpoint = "checkpoint_key = 'c', checkpoint_step = 1, checkpoint_size_bytes = 1, checkpoint_fingerprint = 'f', \
                      checkpoint_sha256 = repeat('0', 64)";
    let mut broken = BTreeSet::new();
    for (state, set, why) in [
        (JobState::Queued, "state = 'done'", "no arrow leads"),
        (JobState::Queued, "state = 'running'", "a_lease_is_held_while_running"),
        (JobState::Queued, "claim_token = gen_random_uuid()", "a_lease_is_held_while_running"),
        (JobState::Queued, "begun_at = 5", "a_waiting_job_has_not_begun"),
        (JobState::Queued, "cancel_requested_at = 5", "a_waiting_job_has_not_begun"),
        (JobState::Queued, "finished_at = 5", "an_ended_job_has_its_moment"),
        (JobState::Queued, "result_key = 'k'", "a_result_is_whole"),
        (JobState::Queued, "result_expires_at = 5", "only_a_result_expires"),
        (JobState::Queued, "error_code = 'internal_error', error_message = 'm'", "an_error_is_of_a_job"),
        (JobState::Queued, "percent = 100", "a_hundred_percent"),
        (JobState::Queued, "percent = 101", "jobs_percent_check"),
        (JobState::Queued, "step = -1", "jobs_step_check"),
        (JobState::Queued, "capacity_class = -1", "jobs_capacity_class_check"),
        (JobState::Queued, "rows = -1", "jobs_rows_check"),
        (JobState::Queued, "spec_version = -1", "jobs_spec_version_check"),
        (JobState::Queued, "total_steps = -1", "jobs_total_steps_check"),
        (JobState::Queued, "attempt = -1", "jobs_attempt_check"),
        (JobState::Queued, "max_attempts = 0", "jobs_max_attempts_check"),
        (JobState::Queued, "spared = -1", "jobs_spared_check"),
        (JobState::Queued, "checkpoint_step = -1", "jobs_checkpoint_step_check"),
        (JobState::Queued, "checkpoint_size_bytes = -1", "jobs_checkpoint_size_bytes_check"),
        (JobState::Queued, "checkpoint_sha256 = 'short'", "jobs_checkpoint_sha256_check"),
        (JobState::Queued, "result_size_bytes = -1", "jobs_result_size_bytes_check"),
        (JobState::Queued, "result_sha256 = 'short'", "jobs_result_sha256_check"),
        (JobState::Queued, WITHOUT_ARROWS, "jobs_state_check"),
        (JobState::Queued, "result_life = -1", "jobs_result_life_check"),
        (JobState::Queued, "metadata = '[]'", "jobs_metadata_check"),
        (JobState::Queued, "hook_url = 'u'", "a_hook_says_what_it_hears_of"),
        (JobState::Queued, "hook_url = 'u', hook_notices = '{video.lost}'", "a_hook_says_what_it_hears_of"),
        (JobState::Queued, "attempt = 1", "every_attempt_and_every_spared_one"),
        (JobState::Queued, "spared = 1", "every_attempt_and_every_spared_one"),
        (JobState::Queued, "spec = 'not json'", "invalid input syntax for type json"),
        (JobState::Queued, "priority = 'high'", "jobs_priority_check"),
        (JobState::Queued, "rank = 'NaN'", "jobs_rank_check"),
        (JobState::Queued, "rank = 0", "jobs_check"),
        (JobState::Queued, "fence = -1", "the fence of a job only grows"),
        (JobState::Queued, "checkpoint_key = 'c'", "a_checkpoint_is_whole"),
        (JobState::Running, "lease_expires_at = null", "a_lease_is_held_while_running"),
        (JobState::Running, "begun_at = 5, start_by = 6", "a_job_that_has_begun_need_not_begin"),
        (JobState::Running, "fence = fence - 1", "the fence of a job only grows"),
        (JobState::Completed, "result_size_bytes = null", "a_result_is_whole"),
        (
            JobState::Completed,
            "result_key = null, result_size_bytes = null, result_sha256 = null",
            "a_completed_job_has_its_result",
        ),
        (JobState::Completed, "report = null", "a_report_is_of_a_completed_job"),
        (JobState::Completed, checkpoint, "a_checkpoint_is_whole"),
        (JobState::Failed, "error_code = 'cancelled'", "cancelled_is_a_state_and_a_code"),
        (JobState::Failed, "error_message = null", "an_error_is_of_a_job"),
        (JobState::Cancelled, "finished_at = null", "an_ended_job_has_its_moment"),
    ] {
        let mut db = harness.store.pool().begin().await.unwrap();
        bring_to(&mut db, state).await;
        if set == WITHOUT_ARROWS {
            run(&mut db, "alter table jobs disable trigger jobs_follow_the_arrows").await.unwrap();
        }
        let error = update(&mut db, set).await.unwrap_err();
        assert!(error.to_string().contains(why), "{state}, {set}: {error}");
        let refusal = error.as_database_error().unwrap();
        if refusal.to_string().contains("violates check constraint") {
            assert!(refusal.constraint().is_some_and(|name| name.starts_with(why)), "{refusal:?}");
            assert_eq!(refusal.code().as_deref(), Some("23514"));
            broken.extend(refusal.constraint().map(str::to_owned));
        }
        db.rollback().await.unwrap();
    }
    // The names stand in the function alone, so that one that is misspelt or never reached would be noticed by nobody.
    let rules: Vec<String> = sqlx::query_scalar(
        "select match[1] from pg_proc cross join lateral regexp_matches(prosrc, 'then ''([a-z0-9_]+)''', 'g') as match
         where proname = 'require_job_rules'",
    )
    .fetch_all(harness.store.pool())
    .await
    .unwrap();
    assert_eq!(rules.len(), 34);
    assert_eq!(broken, rules.into_iter().collect::<BTreeSet<String>>());
    for (statement, why) in [
        (
            "insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec, cost_tflop,
                 rank, virtual_finish, created_at, run_at, max_attempts, state, finished_at, error_code, error_message)
             values (gen_random_uuid(), 't', 'm', 'fl2va', 0, 1, 'normal', 1, '{}', 1.0, 1.0, 1.0, 0, 0, 3, 'failed', 1,
                 'internal_error', 'm')",
            "a job begins queued",
        ),
        ("insert into objects (key, job_id, standing) values ('k', gen_random_uuid(), 'garbage')", "objects_check"),
        ("insert into objects (key, job_id, standing) values ('k', gen_random_uuid(), 'lost')", "objects_standing_check"),
        (
            "insert into objects (key, job_id, standing, collect_after) values ('k', gen_random_uuid(), 'input', 1)",
            "objects_check",
        ),
        ("insert into tenants (tenant, weight) values ('t', 0)", "tenants_weight_check"),
        ("insert into tenants (tenant, weight) values ('ünï', 1)", "tenants_tenant_check"),
        ("insert into tenants (tenant, weight) values ('', 1)", "tenants_tenant_check"),
        (
            "insert into api_keys (hash, tenant, created_at) values (sha256('k'), 'two words', 0)",
            "api_keys_tenant_check",
        ),
        ("insert into tenants (tenant, weight) values ('t', 'NaN')", "tenants_weight_check"),
        ("insert into tenants (tenant, weight) values ('t', 'infinity')", "tenants_weight_check"),
        ("insert into api_keys (hash, tenant, created_at) values ('short', 't', 0)", "api_keys_hash_check"),
        (
            "insert into workers (id, host, version, partitions, spec_versions, state, started_at, seen_at)
             values (gen_random_uuid(), 'h', 'v', '{}', '{1}', 'idle', 0, 0)",
            "workers_partitions_check",
        ),
        (
            "insert into workers (id, host, version, partitions, spec_versions, state, started_at, seen_at)
             values (gen_random_uuid(), 'h', 'v', '{fl2va}', '{}', 'idle', 0, 0)",
            "workers_spec_versions_check",
        ),
        (
            "insert into endpoints (id, tenant, url, notices, created_at)
             values (gen_random_uuid(), 't', 'u', '{video.lost}', 0)",
            "endpoints_notices_check",
        ),
        (
            "insert into endpoints (id, tenant, url, disabled_at, created_at) values (gen_random_uuid(), 't', 'u', 1, 0)",
            "a_disabled_endpoint_says_why",
        ),
        (
            "insert into deliveries (id, tenant, job_id, notice, created_at)
             values (gen_random_uuid(), 't', gen_random_uuid(), 'video.failed', 0)",
            "a_delivery_has_one_receiver",
        ),
        (
            "insert into deliveries (id, url, tenant, job_id, notice, created_at, next_try_at)
             values (gen_random_uuid(), 'u', 't', gen_random_uuid(), 'video.failed', 0, null)",
            "a_pending_delivery_has_a_next_try",
        ),
        (
            "insert into deliveries (id, url, tenant, job_id, notice, created_at, state, next_try_at)
             values (gen_random_uuid(), 'u', 't', gen_random_uuid(), 'video.failed', 0, 'dead', null)",
            "a_pending_delivery_is_not_settled",
        ),
        (
            "insert into submissions (tenant, token, fields, job_id, again, created_at, expires_at)
             values ('t', 'short', sha256('f'), gen_random_uuid(), false, 0, 0)",
            "submissions_token_check",
        ),
        ("insert into schema_compatibility (oldest_program) values (2)", "schema_compatibility_pkey"),
    ] {
        let error = harness.try_meddle(statement).await.unwrap_err();
        assert!(error.to_string().contains(why), "{statement}: {error}");
    }
}
