//! The order in which jobs are run: fair over tenants, fixed when a job is made.
//!
//! A job's rank is the virtual time at which a perfectly fair server would have finished it (self-clocked fair
//! queueing, Golestani 1994). The server's virtual time is the rank of the job claimed last, less its penalty. A tenant that was idle
//! starts at that time; a tenant with a backlog starts where its last job ends; in both cases the job ends its cost
//! over its tenant's weight later. Lower ranks run first. So a thousand jobs of one tenant do not delay the first job of
//! another by more than the job that is running, and within a tenant the order is that of creation.
//!
//! The penalty of a [`Priority`] is added to the result and does not move the tenant's virtual time, so that a low job
//! does not push back the tenant's later ones.

use std::fmt;
use std::str::FromStr;

use crate::state::UnknownName;
use crate::tenant::Weight;

/// How urgent a job is among all others.
///
/// A low priority is a later place by a fixed amount of work, never a second queue: so a stream of normal jobs delays a
/// low one by [`Priority::LOW_PENALTY_TFLOP`] at most, and nothing starves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Like most jobs.
    #[default]
    Normal,
    /// It may wait for others.
    Low,
}

impl Priority {
    /// Every priority.
    pub const ALL: [Self; 2] = [Self::Normal, Self::Low];
    /// How much work of others goes before a job of low priority, in TFLOP per unit of weight: that of about ten videos
    /// of the default size.
    pub const LOW_PENALTY_TFLOP: f64 = 1e6;

    /// Returns what is added to a job's rank.
    pub const fn penalty(self) -> f64 {
        match self {
            Self::Normal => 0.0,
            Self::Low => Self::LOW_PENALTY_TFLOP,
        }
    }

    /// Returns the name on the wire and in stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Priority {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == text).ok_or_else(|| UnknownName {
            kind: "priority",
            text: text.to_owned(),
            expected: "normal, low",
        })
    }
}

/// Returns the rank of a new job.
///
/// Units: `virtual_time`, `tenant_finish` and the result are in TFLOP per unit of weight; `cost` in TFLOP. A cost that
/// is not a positive finite number counts as [nothing](share).
pub fn virtual_finish(virtual_time: f64, tenant_finish: f64, cost: f64, weight: Weight) -> f64 {
    virtual_time.max(tenant_finish) + share(cost) / weight.get()
}

/// Returns what a cost counts in the order: nothing where it is not a positive finite number.
pub fn share(cost: f64) -> f64 {
    if cost.is_finite() && cost > 0.0 { cost } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A queue of one server that hands out the lowest rank first and counts each tenant's service.
    #[derive(Default)]
    struct Server {
        virtual_time: f64,
        finish: BTreeMap<usize, f64>,
        waiting: Vec<(f64, usize, f64)>,
        served: BTreeMap<usize, f64>,
    }

    impl Server {
        fn create(&mut self, tenant: usize, cost: f64) -> f64 {
            let last = self.finish.get(&tenant).copied().unwrap_or(0.0);
            let rank = virtual_finish(self.virtual_time, last, cost, Weight::DEFAULT);
            self.finish.insert(tenant, rank);
            self.waiting.push((rank, tenant, cost));
            rank
        }

        fn create_many(&mut self, tenant: usize, jobs: usize) {
            for _ in 0..jobs {
                self.create(tenant, 10.0);
            }
        }

        fn claim(&mut self) -> Option<usize> {
            let next = (0..self.waiting.len()).min_by(|&a, &b| self.waiting[a].0.total_cmp(&self.waiting[b].0))?;
            let (rank, tenant, cost) = self.waiting.remove(next);
            self.virtual_time = self.virtual_time.max(rank);
            *self.served.entry(tenant).or_default() += cost;
            Some(tenant)
        }
    }

    #[test]
    fn a_late_tenant_does_not_wait_behind_a_backlog() {
        let mut server = Server::default();
        server.create_many(0, 100);
        assert_eq!(server.claim(), Some(0));
        server.create(1, 10.0);
        assert!([server.claim(), server.claim()].contains(&Some(1)));
    }

    #[test]
    fn an_idle_tenant_saves_up_no_credit() {
        let mut server = Server::default();
        server.create_many(0, 50);
        for _ in 0..40 {
            server.claim();
        }
        server.create_many(1, 10);
        let next: Vec<Option<usize>> = (0..10).map(|_| server.claim()).collect();
        assert!(next.iter().filter(|&&tenant| tenant == Some(0)).count() >= 4, "{next:?}");
    }

    proptest! {
        #[test]
        fn the_jobs_of_one_tenant_run_in_the_order_they_were_made(costs in prop::collection::vec(0.1f64..1e6, 2..50)) {
            let mut server = Server::default();
            let ranks: Vec<f64> = costs.iter().map(|&cost| server.create(0, cost)).collect();
            prop_assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn two_backlogged_tenants_get_equal_service_within_their_largest_job(
            a in prop::collection::vec(1f64..100.0, 40),
            b in prop::collection::vec(1f64..100.0, 40),
        ) {
            let mut server = Server::default();
            for (tenant, costs) in [a, b].into_iter().enumerate() {
                for cost in costs {
                    server.create(tenant, cost);
                }
            }
            for _ in 0..40 {
                server.claim();
                let both_wait = (0..2).all(|tenant| server.waiting.iter().any(|job| job.1 == tenant));
                if both_wait {
                    let served = |tenant| server.served.get(&tenant).copied().unwrap_or(0.0);
                    prop_assert!((served(0) - served(1)).abs() <= 100.0 + 1e-6);
                }
            }
        }

        #[test]
        fn a_rank_is_finite_and_not_before_the_present(now in 0f64..1e12, last in 0f64..1e12, cost in any::<f64>(), weight in any::<f64>()) {
            let weight = Weight::new(weight).unwrap_or_default();
            let rank = virtual_finish(now, last, cost.clamp(-1e12, 1e12), weight);
            prop_assert!(rank.is_finite() && rank >= now.max(last));
        }
    }
}
