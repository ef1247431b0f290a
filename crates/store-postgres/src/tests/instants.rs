use clapboard_jobs::JobState;

use super::*;

/// A worker writes a checkpoint's key down and ends the job in the same instant, as one whose first call was given up on the
/// way does: the end waits for the row, and must then see what was written down meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_expected_while_a_job_ends_is_collected() {
    let harness = harness().await;
    let waiting =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let failed: fn(&Lease) -> Outcome = |_| Outcome::Failed(broken("broken"));
    for (outcome, ended) in [(completed as fn(&Lease) -> Outcome, JobState::Completed), (failed, JobState::Failed)] {
        let job = harness.store.create(new_job()).await.unwrap();
        let lease = harness.store.claim(job.id, &worker()).await.unwrap().unwrap().lease;

        let mut expecting = harness.store.pool().begin().await.unwrap();
        sqlx::query("select from jobs where id = $1 for update")
            .bind(job.id.as_uuid())
            .execute(&mut *expecting)
            .await
            .unwrap();
        let ending = tokio::spawn({
            let (store, lease) = (Arc::clone(&harness.store), lease.clone());
            async move { store.finish(&lease, outcome(&lease)).await.unwrap() }
        });
        while harness.number(waiting).await == 0 {
            assert!(!ending.is_finished(), "it ended under the lock");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let key = lease.checkpoint_key(1);
        sqlx::query("insert into objects (key, job_id, standing) values ($1, $2, 'expected')")
            .bind(key.as_str())
            .bind(job.id.as_uuid())
            .execute(&mut *expecting)
            .await
            .unwrap();
        expecting.commit().await.unwrap();

        assert_eq!(ending.await.unwrap(), ended);
        harness.advance(Policy::default().lease).await;
        let garbage = harness.store.garbage(9).await.unwrap();
        assert!(garbage.contains(&key), "{garbage:?}");
        harness.store.forget_garbage(&garbage).await.unwrap();
    }
}
