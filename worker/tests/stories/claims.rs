//! How jobs are found.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clapboard_jobs::{Dispatch, DispatchError, Hint, JobId, JobState, Queue};
use clapboard_worker::Options;

use crate::house::House;
use crate::scripted::Scripted;

/// A dispatcher that never rests: it hands out hints about jobs that are long gone, or fails.
struct Restless {
    fails: bool,
}

#[async_trait]
impl Dispatch for Restless {
    async fn push(&self, _hints: &[Hint]) -> Result<usize, DispatchError> {
        Ok(0)
    }

    async fn pop(&self, queues: &[Queue], _wait: Duration) -> Result<Option<Hint>, DispatchError> {
        if self.fails {
            return Err(DispatchError { doing: "following the story", source: "as the story says".into() });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(Some(Hint { queue: queues[0], rank: 0.0, job: JobId::new() }))
    }

    async fn len(&self, _queue: Queue) -> Result<u64, DispatchError> {
        Ok(1)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_hint_is_found_however_many_other_hints_come() {
    let mut house = House::new().await;
    house.dispatch = Arc::new(Restless { fails: false });
    let worker = house.start(Scripted::honest());
    let job = house.submit_quietly().await;
    house.until_state(job.id, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_while_the_dispatcher_is_away() {
    let mut house = House::new().await;
    house.dispatch = Arc::new(Restless { fails: true });
    let worker = house.start(Scripted::honest());
    let job = house.submit_quietly().await;
    house.until_state(job.id, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_to_a_worker_that_can_hold_it_and_to_no_other() {
    let mut house = House::new().await;
    let faulty = house.break_store();
    let id = house.submit().await;
    let rows = house.find(id).await.unwrap().rows;
    let small = house.start_with(Scripted::honest(), Options { max_rows: Some(rows - 1), ..house.options() });
    // Several times it asks the store for a job, and is given none.
    house.until(id, |_| faulty.claims() >= 4).await;
    small.stop().await.unwrap();
    assert_eq!(house.ends(id).await, []);
    // Its class has larger jobs, so its hint is not for this worker either; yet it fits.
    let exact = house.start_with(Scripted::honest(), Options { max_rows: Some(rows), ..house.options() });
    house.until_state(id, JobState::Completed).await;
    exact.stop().await.unwrap();
}
