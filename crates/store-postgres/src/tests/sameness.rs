use clapboard_jobs::{BlobKey, Keyring, TenantLimits, Weight, rank};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// What happens to a queue: a job is made by a tenant at a cost, or one is claimed.
#[derive(Debug, Clone)]
enum Step {
    Create { tenant: usize, cost: f64, low: bool },
    Claim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cost = prop_oneof![0.0f64..1e6, Just(-1.0), Just(0.0)];
    let create = (0usize..3, cost, any::<bool>()).prop_map(|(tenant, cost, low)| Step::Create { tenant, cost, low });
    prop::collection::vec(prop_oneof![3 => create, 1 => Just(Step::Claim)], 1..25)
}

/// The statements carry the law of [`rank::virtual_finish`] in another language.
#[test]
fn the_statements_rank_as_the_function_does() {
    let weights = [1.0, 2.5, 0.3].map(|weight| Weight::new(weight).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let harness = runtime.block_on(harness());
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps(), |steps| {
        runtime.block_on(async {
            harness.meddle("truncate jobs, job_attempts, objects, queue_clocks, tenant_clocks").await;
            let tenants: Vec<Tenant> = (0..3).map(|n| format!("t{n}").parse().unwrap()).collect();
            for (tenant, weight) in tenants.iter().zip(weights) {
                let limits = TenantLimits { weight, ..TenantLimits::default() };
                harness.store.set_tenant(tenant, &limits).await.unwrap();
            }
            let (mut virtual_time, mut finish, mut finishes) = (0.0f64, [0.0f64; 3], Vec::new());
            for step in steps {
                match step {
                    Step::Create { tenant, cost, low } => {
                        let priority = if low { Priority::Low } else { Priority::Normal };
                        let new = NewJob { tenant: tenants[tenant].clone(), cost_tflop: cost, priority, ..new_job() };
                        let job = harness.store.create(new).await.unwrap();
                        finish[tenant] = rank::virtual_finish(virtual_time, finish[tenant], cost, weights[tenant]);
                        prop_assert_eq!(job.rank, finish[tenant] + priority.penalty());
                        finishes.push((job.id, finish[tenant]));
                    }
                    Step::Claim => {
                        if let Some(claimed) = harness.store.claim_next(&worker()).await.unwrap() {
                            let (_, served) = finishes.iter().find(|(id, _)| *id == claimed.job.id).unwrap();
                            virtual_time = virtual_time.max(*served);
                        }
                    }
                }
            }
            Ok(())
        })
    });
    outcome.unwrap();
}

/// The claim writes down the key that the worker will use.
#[tokio::test]
async fn the_statement_names_the_key_of_the_claim() {
    let harness = harness().await;
    let job = harness.store.create(NewJob { tenant: "Team_a-1".parse().unwrap(), ..new_job() }).await.unwrap();
    for _ in 0..3 {
        let lease = harness.store.claim(job.id, &worker()).await.unwrap().unwrap().lease;
        let key: String = sqlx::query_scalar("select key from objects where standing = 'expected'")
            .fetch_one(harness.store.pool())
            .await
            .unwrap();
        assert_eq!(key.parse::<BlobKey>().unwrap(), lease.result_key());
        harness.store.hand_back(&lease, clapboard_jobs::HandBack::Drained).await.unwrap();
    }
}

/// Postgres keeps no NUL, and a failure must not fail for its message.
#[tokio::test]
async fn a_message_with_a_nul_is_kept_without_it() {
    let harness = harness().await;
    let job = harness.store.create(new_job()).await.unwrap();
    let lease = harness.store.claim(job.id, &worker()).await.unwrap().unwrap().lease;
    harness.store.finish(&lease, Outcome::Failed(broken("before\0after"))).await.unwrap();
    let job = harness.store.get(&Tenant::default(), job.id).await.unwrap().unwrap();
    assert_eq!(job.error.unwrap().message, "before\u{fffd}after");
}
