//! What a try leads to, by arithmetic alone: the stores only write it down.

use std::time::Duration;

use super::schedule::LONGEST_ASKED;
use super::{DeliveryState, MAX_TRIES, Tried, after_failure, reasons};

/// How long a receiver that is overloaded, or not there behind its proxy, is left alone unless it says for how long.
const REST: Duration = Duration::from_secs(60);

/// What its row says of a delivery that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempted {
    /// Where it stands.
    pub state: DeliveryState,
    /// How often it was taken to be tried.
    pub tries: u32,
    /// Whether it was taken, and nothing was told of that try.
    pub is_held: bool,
    /// Whether it tells of no job and only tries its endpoint.
    pub is_test: bool,
}

/// What becomes of a delivery and of its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aftermath {
    /// Of the delivery.
    pub delivery: Fate,
    /// Of its endpoint, where it has one.
    pub endpoint: Effect,
}

/// What becomes of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: it is as it was.
    Stays,
    /// It is over.
    Settled {
        /// Delivered, or dead.
        state: DeliveryState,
        /// The status of the answer, if there was one.
        status: Option<u16>,
        /// Why it is dead.
        error: Option<String>,
    },
    /// It waits for its next try.
    Waits {
        /// How long.
        wait: Duration,
        /// The status of the answer, if there was one.
        status: Option<u16>,
        /// Why the try failed.
        error: String,
    },
    /// It waits, and the try does not count.
    Postponed {
        /// How long.
        wait: Duration,
    },
}

/// What becomes of the endpoint of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// It has answered as it should, and is left alone no longer.
    Reached,
    /// It is left alone for so long, with everything that waits for it; for longer where it was to be already.
    Quiet(Duration),
    /// It is disabled.
    Disabled {
        /// Why.
        why: &'static str,
        /// Only where nothing has reached it since the delivery was made.
        unless_reached: bool,
    },
}

impl Attempted {
    /// Tells whether it was taken as often as it may be, so that it is not tried once more.
    pub const fn is_used_up(&self) -> bool {
        self.tries >= self.max_tries()
    }

    const fn max_tries(&self) -> u32 {
        if self.is_test { 1 } else { MAX_TRIES }
    }

    /// Returns what the try `number` leads to, by how it went; waits are spread by `entropy`.
    ///
    /// A try that is not the present one leads to nothing, unless it has delivered.
    pub fn after(&self, number: u32, tried: &Tried, entropy: u64) -> Aftermath {
        let is_present = self.state == DeliveryState::Pending && self.is_held && self.tries == number;
        match tried {
            Tried::Delivered { status } if self.state != DeliveryState::Delivered => Aftermath {
                delivery: Fate::Settled { state: DeliveryState::Delivered, status: Some(*status), error: None },
                endpoint: Effect::Reached,
            },
            Tried::Failed { status, error, after } if is_present => self.failed(*status, error, *after, entropy),
            Tried::Gone { status } if is_present => Aftermath {
                delivery: Fate::Settled {
                    state: DeliveryState::Dead,
                    status: Some(*status),
                    error: Some(reasons::GONE.to_owned()),
                },
                endpoint: self.disabled(reasons::GONE, false),
            },
            Tried::Postponed { after } if is_present => {
                Aftermath { delivery: Fate::Postponed { wait: (*after).min(LONGEST_ASKED) }, endpoint: Effect::None }
            }
            Tried::Delivered { .. } | Tried::Failed { .. } | Tried::Gone { .. } | Tried::Postponed { .. } => {
                Aftermath { delivery: Fate::Stays, endpoint: Effect::None }
            }
        }
    }

    fn failed(&self, status: Option<u16>, error: &str, asked: Option<Duration>, entropy: u64) -> Aftermath {
        let quiet = quiet(status, asked).map_or(Effect::None, Effect::Quiet);
        let next = if self.is_used_up() { None } else { after_failure(self.tries, asked, entropy) };
        match next {
            Some(wait) => {
                Aftermath { delivery: Fate::Waits { wait, status, error: error.to_owned() }, endpoint: quiet }
            }
            None => Aftermath {
                delivery: Fate::Settled { state: DeliveryState::Dead, status, error: Some(error.to_owned()) },
                endpoint: if self.is_test { quiet } else { self.disabled(reasons::NEVER_REACHED, true) },
            },
        }
    }

    /// Whoever tries an endpoint out has it disabled by nothing that comes of it.
    const fn disabled(&self, why: &'static str, unless_reached: bool) -> Effect {
        if self.is_test { Effect::None } else { Effect::Disabled { why, unless_reached } }
    }
}

/// Returns how long a receiver is left alone that has failed so; none where it is not.
fn quiet(status: Option<u16>, asked: Option<Duration>) -> Option<Duration> {
    match (asked, status) {
        (Some(asked), _) => Some(asked.min(LONGEST_ASKED)).filter(|asked| !asked.is_zero()),
        (None, Some(429 | 502 | 503 | 504)) => Some(REST),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_tried() -> impl Strategy<Value = Tried> {
        let after = prop::option::of((0u64..200_000).prop_map(Duration::from_secs));
        let status = prop::option::of(prop_oneof![Just(429u16), Just(503), 400u16..600]);
        prop_oneof![
            (200u16..300).prop_map(|status| Tried::Delivered { status }),
            (status, after).prop_map(|(status, after)| Tried::Failed { status, error: "no".to_owned(), after }),
            Just(Tried::Gone { status: 410 }),
            (0u64..200_000).prop_map(|after| Tried::Postponed { after: Duration::from_secs(after) }),
        ]
    }

    fn any_attempted() -> impl Strategy<Value = Attempted> {
        let state = prop::sample::select(DeliveryState::ALL.to_vec());
        (state, 0u32..=MAX_TRIES, any::<bool>(), any::<bool>()).prop_map(|(state, tries, is_held, is_test)| Attempted {
            state,
            tries,
            is_held,
            is_test,
        })
    }

    proptest! {
        #[test]
        fn a_try_that_is_not_the_present_one_changes_nothing_unless_it_delivered(
            attempted in any_attempted(), number in 0u32..=MAX_TRIES, tried in any_tried(), entropy in any::<u64>(),
        ) {
            let is_present =
                attempted.state == DeliveryState::Pending && attempted.is_held && attempted.tries == number;
            let step = attempted.after(number, &tried, entropy);
            let delivers = matches!(tried, Tried::Delivered { .. }) && attempted.state != DeliveryState::Delivered;
            let nothing = Aftermath { delivery: Fate::Stays, endpoint: Effect::None };
            prop_assert_eq!(step == nothing, !is_present && !delivers);
        }

        #[test]
        fn a_test_disables_nothing_and_is_over_with_its_first_answer(tried in any_tried(), entropy in any::<u64>()) {
            let test = Attempted { state: DeliveryState::Pending, tries: 1, is_held: true, is_test: true };
            let step = test.after(1, &tried, entropy);
            let disables = matches!(step.endpoint, Effect::Disabled { .. });
            prop_assert!(!disables, "{:?}", step);
            let is_over = matches!(step.delivery, Fate::Settled { .. });
            prop_assert_eq!(is_over, !matches!(tried, Tried::Postponed { .. }));
        }

        /// What is tried as a store does it ends, after the last of its tries at the latest, and not for a failure before.
        #[test]
        fn a_delivery_is_tried_as_often_as_it_may_be(tries in prop::collection::vec((any_tried(), any::<u64>()), 0..40)) {
            let mut delivery = Attempted { state: DeliveryState::Pending, tries: 0, is_held: true, is_test: false };
            for (tried, entropy) in tries {
                prop_assert!(!delivery.is_used_up());
                delivery.tries += 1;
                let step = delivery.after(delivery.tries, &tried, entropy);
                match step.delivery {
                    Fate::Stays => prop_assert!(false, "the present try leads to something"),
                    Fate::Settled { state, .. } => {
                        let failed = matches!(tried, Tried::Failed { .. });
                        prop_assert_eq!(state == DeliveryState::Delivered, matches!(tried, Tried::Delivered { .. }));
                        prop_assert!(!failed || delivery.tries == MAX_TRIES);
                        let disables = matches!(step.endpoint, Effect::Disabled { .. });
                        prop_assert_eq!(disables, state == DeliveryState::Dead);
                        return Ok(());
                    }
                    Fate::Waits { wait, .. } => prop_assert!(wait >= Duration::from_secs(5)),
                    Fate::Postponed { wait } => {
                        prop_assert!(wait <= LONGEST_ASKED);
                        delivery.tries -= 1;
                    }
                }
            }
        }

        #[test]
        fn who_asks_for_time_is_left_alone_for_it(seconds in 1u64..1_000_000, status in prop::option::of(400u16..600)) {
            let asked = Duration::from_secs(seconds);
            let failed = Tried::Failed { status, error: "busy".to_owned(), after: Some(asked) };
            let pending = Attempted { state: DeliveryState::Pending, tries: 3, is_held: true, is_test: false };
            prop_assert_eq!(pending.after(3, &failed, 0).endpoint, Effect::Quiet(asked.min(LONGEST_ASKED)));
        }
    }

    #[test]
    fn who_is_overloaded_is_left_alone_without_asking() {
        let pending = Attempted { state: DeliveryState::Pending, tries: 1, is_held: true, is_test: false };
        for (status, expected) in [
            (Some(429), Effect::Quiet(REST)),
            (Some(502), Effect::Quiet(REST)),
            (Some(503), Effect::Quiet(REST)),
            (Some(504), Effect::Quiet(REST)),
            (Some(500), Effect::None),
            (Some(404), Effect::None),
            (None, Effect::None),
        ] {
            let failed = Tried::Failed { status, error: "no".to_owned(), after: None };
            assert_eq!(pending.after(1, &failed, 0).endpoint, expected, "{status:?}");
        }
    }
}
