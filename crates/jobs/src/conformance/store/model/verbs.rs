//! What can happen to jobs.

use proptest::prelude::*;

/// One thing that somebody does. Numbers name jobs and leases in the order in which they came to be, modulo how many
/// there are; so old leases are tried too.
#[derive(Debug, Clone)]
pub(super) enum Verb {
    Create { tenant: usize, large: bool, low: bool, start_within_s: Option<u64>, inputs: usize, late: bool },
    ClaimNext { small: bool },
    Claim { job: usize, small: bool },
    Begin { lease: usize },
    Beat { lease: usize, percent: u8 },
    ExpectCheckpoint { lease: usize, step: u32 },
    KeepCheckpoint { lease: usize, step: u32 },
    Complete { lease: usize },
    Fail { lease: usize },
    StopCancelled { lease: usize },
    Drain { lease: usize },
    Return { lease: usize },
    Unwell { lease: usize, after_s: u64 },
    Retry { lease: usize, after_s: u64 },
    Cancel { job: usize },
    Delete { job: usize },
    RunAgain { job: usize },
    Limit { tenant: usize, max_running: Option<u32>, max_queued: Option<u32> },
    Listen { tenant: usize },
    Pause { paused: bool },
    Wait { seconds: u64 },
    Reclaim,
    FailOverdue,
    CollectGarbage,
}

/// Any verb; those that move jobs on are the likelier ones.
pub(super) fn any() -> impl Strategy<Value = Verb> {
    // All times are multiples of 20 s, so that what a store's own clock adds in between changes no order.
    let later = || (0..3_u64).prop_map(|times| times * 20);
    let lease = || 0..1_000_usize;
    let job = || 0..1_000_usize;
    // Mostly the same, so that what is kept was expected before.
    let step = || prop::sample::select(vec![1, 1, 1, 2_u32]);
    prop_oneof![
        10 => (
            0..2_usize,
            any_bool(),
            prop::bool::weighted(0.2),
            prop::option::weighted(0.3, 1..4_u64),
            prop::sample::select(vec![0, 0, 1, 2_usize]),
            prop::bool::weighted(0.1),
        )
            .prop_map(|(tenant, large, low, twenties, inputs, late)| {
                let start_within_s = twenties.map(|times| times * 20);
                Verb::Create { tenant, large, low, start_within_s, inputs, late }
            }),
        8 => any_bool().prop_map(|small| Verb::ClaimNext { small }),
        4 => (job(), any_bool()).prop_map(|(job, small)| Verb::Claim { job, small }),
        6 => lease().prop_map(|lease| Verb::Begin { lease }),
        3 => (lease(), 0..120_u8).prop_map(|(lease, percent)| Verb::Beat { lease, percent }),
        8 => (lease(), step()).prop_map(|(lease, step)| Verb::ExpectCheckpoint { lease, step }),
        8 => (lease(), step()).prop_map(|(lease, step)| Verb::KeepCheckpoint { lease, step }),
        3 => lease().prop_map(|lease| Verb::Complete { lease }),
        2 => lease().prop_map(|lease| Verb::Fail { lease }),
        2 => lease().prop_map(|lease| Verb::StopCancelled { lease }),
        4 => lease().prop_map(|lease| Verb::Drain { lease }),
        3 => lease().prop_map(|lease| Verb::Return { lease }),
        2 => (lease(), later()).prop_map(|(lease, after_s)| Verb::Unwell { lease, after_s }),
        4 => (lease(), later()).prop_map(|(lease, after_s)| Verb::Retry { lease, after_s }),
        5 => job().prop_map(|job| Verb::Cancel { job }),
        1 => job().prop_map(|job| Verb::Delete { job }),
        2 => job().prop_map(|job| Verb::RunAgain { job }),
        2 => (0..2_usize, prop::option::of(0..4_u32), prop::option::of(0..8_u32)).prop_map(
            |(tenant, max_running, max_queued)| Verb::Limit { tenant, max_running, max_queued }
        ),
        1 => (0..2_usize).prop_map(|tenant| Verb::Listen { tenant }),
        1 => any_bool().prop_map(|paused| Verb::Pause { paused }),
        4 => (1..4_u64).prop_map(|times| Verb::Wait { seconds: times * 20 }),
        3 => Just(Verb::Reclaim),
        2 => Just(Verb::FailOverdue),
        2 => Just(Verb::CollectGarbage),
    ]
}

fn any_bool() -> impl Strategy<Value = bool> {
    prop::bool::ANY
}
