//! Whether anybody could run a job that waits.

use clapboard_h3::Partition;
use clapboard_jobs::{Job, JobState, Store, WorkerState};

/// The workers and pauses that jobs of a partition wait for.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    paused: Vec<Partition>,
    served: Vec<(Partition, Option<u64>)>,
}

impl Fleet {
    /// Looks at the workers that were heard of lately.
    pub(super) async fn of(store: &dyn Store) -> anyhow::Result<Self> {
        let workers = store.workers().await?;
        let serving = workers.into_iter().map(|worker| worker.card).filter(|card| card.state != WorkerState::Draining);
        let served = serving.flat_map(|card| card.partitions.into_iter().map(move |named| (named, card.max_rows)));
        Ok(Self { paused: store.paused().await?, served: served.collect() })
    }

    /// Says why nobody begins a job that waits; none where somebody may.
    pub(super) fn hindrance(&self, job: &Job) -> Option<String> {
        let partition = job.partition;
        if job.state != JobState::Queued {
            return None;
        }
        if self.paused.contains(&partition) {
            return Some(format!("{partition} is paused"));
        }
        let serving = || self.served.iter().filter(|(served, _)| *served == partition);
        if serving().next().is_none() {
            return Some(format!("no worker serves {partition}"));
        }
        let is_held = serving().any(|(_, most)| most.is_none_or(|most| job.rows <= most));
        (!is_held).then(|| format!("no worker holds its {} rows", job.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::queued_job;
    use super::*;

    #[test]
    fn what_a_waiting_job_lacks_is_told() {
        let job = queued_job();
        let told = |paused: &[Partition], served: &[(Partition, Option<u64>)]| {
            Fleet { paused: paused.to_vec(), served: served.to_vec() }.hindrance(&job)
        };
        let other = Partition::Ref2va;
        assert_eq!(told(&[], &[(other, None)]).as_deref(), Some("no worker serves fl2va"));
        assert_eq!(told(&[other], &[(job.partition, None)]), None);
        assert_eq!(told(&[job.partition], &[(job.partition, None)]).as_deref(), Some("fl2va is paused"));
        let too_small = (job.partition, Some(job.rows - 1));
        assert_eq!(told(&[], &[too_small]), Some(format!("no worker holds its {} rows", job.rows)));
        assert_eq!(told(&[], &[too_small, (job.partition, Some(job.rows))]), None);
        let running = Job { state: JobState::Running, ..job.clone() };
        assert_eq!(Fleet::default().hindrance(&running), None);
    }
}
