//! The partitions whose jobs a worker takes: those whose weights could be loaded when they were needed last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_h3::Partition;
use clapboard_jobs::Causes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::generator::Generator;
use crate::machine::health::Pauses;

/// The longest pause between two looks, unless the first is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// A partition that was withdrawn at some time.
struct Absence {
    partition: Partition,
    /// None while somebody looks for it.
    back: Option<(Pauses, Instant)>,
}

/// The partitions of a worker, and those of them that it takes jobs of.
pub(crate) struct Served {
    all: Vec<Partition>,
    absences: Vec<Absence>,
    first_pause: Duration,
    present: watch::Sender<Vec<Partition>>,
}

impl Served {
    /// Begins with all; the first look for one that is withdrawn comes after `first_pause`.
    pub(crate) fn new(all: Vec<Partition>, first_pause: Duration) -> Self {
        let present = watch::Sender::new(all.clone());
        Self { all, absences: Vec::new(), first_pause, present }
    }

    /// The partitions whose jobs are taken, in their order.
    pub(crate) fn present(&self) -> Vec<Partition> {
        self.present.borrow().clone()
    }

    /// Follows the partitions whose jobs are taken.
    pub(crate) fn follow(&self) -> watch::Receiver<Vec<Partition>> {
        self.present.subscribe()
    }

    /// Takes no jobs of a partition any more, and returns the pauses by which it is to be looked for; nothing where it is
    /// withdrawn already. They go on doubling unless it has been there for longer than the longest of them.
    pub(crate) fn withdraw(&mut self, partition: Partition) -> Option<Pauses> {
        if !self.present.borrow().contains(&partition) {
            return None;
        }
        let known = self.absences.iter().position(|absence| absence.partition == partition);
        let before = known.and_then(|index| self.absences.swap_remove(index).back);
        let pauses = match before {
            Some((pauses, since)) if since.elapsed() <= LONGEST_PAUSE => pauses,
            _ => Pauses::between(self.first_pause, LONGEST_PAUSE),
        };
        self.absences.push(Absence { partition, back: None });
        self.restate();
        Some(pauses)
    }

    /// Takes jobs of a partition again, which was looked for by `pauses`.
    pub(crate) fn restore(&mut self, partition: Partition, pauses: Pauses) {
        if let Some(absence) = self.absences.iter_mut().find(|absence| absence.partition == partition) {
            absence.back = Some((pauses, Instant::now()));
        }
        self.restate();
    }

    fn restate(&self) {
        let away = |partition: &Partition| {
            self.absences.iter().any(|absence| absence.partition == *partition && absence.back.is_none())
        };
        let present = self.all.iter().copied().filter(|partition| !away(partition)).collect();
        self.present.send_replace(present);
    }
}

/// Looks for the weights of a partition, again and again, until they are there or nobody waits for them any more, and returns
/// the pauses as they have become.
///
/// A look that hangs is waited for, and holds up nothing but its partition.
pub(crate) async fn look_for(
    generator: Arc<dyn Generator>,
    partition: Partition,
    mut pauses: Pauses,
    closing: CancellationToken,
) -> Pauses {
    loop {
        let pause = pauses.next();
        let looking = async {
            tokio::time::sleep(pause).await;
            let generator = Arc::clone(&generator);
            tokio::task::spawn_blocking(move || generator.look_for(partition)).await
        };
        let looked = tokio::select! {
            biased;
            () = closing.cancelled() => return pauses,
            looked = looking => looked,
        };
        match looked {
            Ok(Ok(())) => return pauses,
            Ok(Err(error)) => tracing::debug!(%partition, error = %Causes(&error), "the weights are not there yet"),
            Err(error) => tracing::error!(%partition, %error, "looking for weights failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_partition_is_withdrawn_once_and_comes_back_in_its_place() {
        let mut served = Served::new(Partition::ALL.to_vec(), MINUTE);
        let mut followed = served.follow();
        let mut pauses = served.withdraw(Partition::Fl2va).unwrap();
        assert_eq!(*followed.borrow_and_update(), [Partition::Ref2va]);
        assert!(served.withdraw(Partition::Fl2va).is_none() && !followed.has_changed().unwrap());
        let seconds: Vec<u64> = (0..6).map(|_| pauses.next().as_secs()).collect();
        assert_eq!(seconds, [60, 120, 240, 480, 600, 600]);
        served.restore(Partition::Fl2va, pauses);
        assert_eq!(*followed.borrow_and_update(), Partition::ALL);
    }

    #[test]
    fn pauses_go_on_doubling_for_one_that_is_withdrawn_again_soon() {
        let mut served = Served::new(vec![Partition::Ref2va], MINUTE);
        let mut pauses = served.withdraw(Partition::Ref2va).unwrap();
        assert_eq!((pauses.next(), served.present()), (MINUTE, vec![]));
        served.restore(Partition::Ref2va, pauses);
        assert_eq!(served.present(), [Partition::Ref2va]);
        assert_eq!(served.withdraw(Partition::Ref2va).unwrap().next(), 2 * MINUTE);
        assert!(Served::new(vec![Partition::Ref2va], MINUTE).withdraw(Partition::Fl2va).is_none());
    }
}
