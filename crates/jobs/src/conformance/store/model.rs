//! Random lives of many jobs, compared step by step with a model that fits in the head.

mod hold;
mod play;
mod verbs;
mod world;

use std::fmt::Write as _;

use proptest::collection;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::StoreHarness;
use play::Player;
use verbs::Verb;

/// How many lives are tried.
const SEEDS: u8 = 32;
/// How many verbs each has.
const VERBS: usize = 80;

fn life(seed: u8) -> Vec<Verb> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    collection::vec(verbs::any(), VERBS).new_tree(&mut runner).expect("nothing is filtered out").current()
}

/// Whatever two tenants, their workers, an operator and time do, in whatever order: the store answers and holds what the
/// model says.
pub async fn random_lives_agree_with_the_model(harness: &impl StoreHarness) {
    for seed in 0..SEEDS {
        let verbs = life(seed);
        let mut player = Player::new(harness, seed);
        for done in 0..verbs.len() {
            if let Err(why) = player.play(&verbs[done]).await {
                panic!("{}", report(seed, &verbs[..=done], &why));
            }
        }
        if let Err(why) = player.end().await {
            panic!("{}", report(seed, &verbs, &why));
        }
    }
}

fn report(seed: u8, verbs: &[Verb], why: &str) -> String {
    let mut text = format!("seed {seed}: {why}\nafter");
    for (number, verb) in verbs.iter().enumerate() {
        write!(text, "\n{number:4} {verb:?}").expect("a string can be written to");
    }
    text
}
