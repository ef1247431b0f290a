//! What counts requests, against the arithmetic that both follow and a real Redis.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

use std::time::{Duration, Instant};

use clapboard_dispatch::{MemoryLimiter, RedisLimiter, RedisOptions};
use clapboard_jobs::{Allowance, Limiter, Rate};
use clapboard_testkit::{FaultProxy, Mode, Redis};
use redis::cmd;

/// How long anything may take on a slow and busy machine.
const LONG: Duration = Duration::from_secs(60);

fn open(url: &str) -> RedisLimiter {
    RedisLimiter::open(&RedisOptions { timeout: LONG, ..RedisOptions::new(url) }).unwrap()
}

fn ask<T: redis::FromRedisValue>(redis: &Redis, command: &redis::Cmd) -> T {
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    command.query(&mut connection).unwrap()
}

/// The server's clock since 1970.
fn server_time(redis: &Redis) -> Duration {
    let (s, micros): (u64, u32) = ask(redis, &cmd("TIME"));
    Duration::new(s, micros * 1000)
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Checks an answer that was given somewhere between two moments of a clock, and returns what is kept then at the least
/// and the most.
fn check(
    rate: Rate,
    kept: (Option<Duration>, Option<Duration>),
    between: (Duration, Duration),
    said: Allowance,
) -> (Option<Duration>, Option<Duration>) {
    // The most favourable case: the request came late, and little was kept; and the other way round.
    let (best, _) = rate.decide(kept.0, between.1);
    let (worst, _) = rate.decide(kept.1, between.0);
    assert!(worst.allowed <= said.allowed && said.allowed <= best.allowed, "{worst:?} {said:?} {best:?}");
    assert_eq!(said.limit, rate.per_minute);
    let each = Duration::from_secs(60) / rate.per_minute;
    if said.allowed == best.allowed && said.allowed == worst.allowed {
        assert!((worst.remaining..=best.remaining).contains(&said.remaining), "{worst:?} {said:?} {best:?}");
        assert!((best.reset..=worst.reset).contains(&said.reset), "{worst:?} {said:?} {best:?}");
        assert!((best.retry_after..=worst.retry_after).contains(&said.retry_after), "{worst:?} {said:?} {best:?}");
    }
    if !said.allowed {
        return kept;
    }
    let grown = |kept: Option<Duration>, now: Duration| Some(kept.map_or(now, |at| at.max(now)) + each);
    (grown(kept.0, between.0), grown(kept.1, between.1))
}

/// Sends random requests of several clients at several rates and checks each answer with [`Rate::decide`].
async fn agrees(limiter: &dyn Limiter, now: impl Fn() -> Duration) {
    let mut numbers = Numbers(7);
    for (client, per_minute) in [1, 2, 7, 60, 1000, 60_000].into_iter().enumerate() {
        let (rate, who) = (Rate { per_minute }, format!("key_{client}"));
        let mut kept = (None, None);
        for _ in 0..100 {
            if numbers.below(10) == 0 {
                tokio::time::sleep(Duration::from_millis(numbers.below(20))).await;
            }
            let before = now();
            let said = limiter.take(&who, rate).await;
            kept = check(rate, kept, (before, now()), said);
        }
    }
}

#[tokio::test]
async fn memory_counts_as_the_rate_says() {
    let began = Instant::now();
    // Its clock begins somewhere else, and no answer depends on where.
    agrees(&MemoryLimiter::new(), || Duration::from_secs(1_000_000) + began.elapsed()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_counts_as_the_rate_says() {
    let redis = Redis::start();
    agrees(&open(&redis.url()), || server_time(&redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_rate_is_exact_to_the_last_request() {
    let redis = Redis::start();
    let limiter = open(&redis.url());
    let rate = Rate { per_minute: 7 };
    for remaining in (0..7).rev() {
        let said = limiter.take("ann", rate).await;
        assert_eq!((said.allowed, said.remaining, said.retry_after.is_zero()), (true, remaining, remaining > 0));
    }
    let refused = limiter.take("ann", rate).await;
    assert!(!refused.allowed && refused.reset <= LONG && refused.retry_after <= Duration::from_secs(60) / 7);
    assert!(limiter.take("bob", rate).await.allowed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_count_together_and_leave_nothing_behind() {
    let redis = Redis::start();
    let (one, other) = (open(&redis.url()), open(&redis.url()));
    let rate = Rate { per_minute: 2 };
    assert!(one.take("ann", rate).await.allowed && other.take("ann", rate).await.allowed);
    assert!(!one.take("ann", rate).await.allowed && !other.take("ann", rate).await.allowed);
    let keys: Vec<String> = ask(&redis, cmd("KEYS").arg("*"));
    assert_eq!(keys, ["clapboard:rate:ann"]);
    let life_ms: i64 = ask(&redis, cmd("PTTL").arg(&keys[0]));
    assert!((1..=60_000).contains(&life_ms), "{life_ms}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_holds_by_mistake_lets_requests_through() {
    let redis = Redis::start();
    let limiter = open(&redis.url());
    let rate = Rate { per_minute: 1 };
    let () = ask(&redis, cmd("SET").arg("clapboard:rate:ann").arg("nonsense"));
    assert!(limiter.take("ann", rate).await.allowed && !limiter.take("ann", rate).await.allowed);
    // A clock that was set back makes nobody wait for longer than a burst takes.
    let () = ask(&redis, cmd("SET").arg("clapboard:rate:bob").arg("99999999999:0"));
    let said = limiter.take("bob", rate).await;
    assert!(!said.allowed && said.retry_after <= LONG, "{said:?}");
    let () = ask(&redis, cmd("LPUSH").arg("clapboard:rate:eve").arg("x"));
    assert!(limiter.take("eve", rate).await.allowed && !limiter.take("eve", rate).await.allowed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_each_process_counts_for_itself_and_nobody_waits() {
    let mut redis = Redis::start();
    redis.stop();
    let limiter = RedisLimiter::open(&RedisOptions::new(redis.url())).unwrap();
    let rate = Rate { per_minute: 3 };
    for _ in 0..3 {
        assert!(limiter.take("ann", rate).await.allowed);
    }
    assert!(!limiter.take("ann", rate).await.allowed);
    redis.start_again();
    // Redis has counted nothing.
    let began = Instant::now();
    while !limiter.take("ann", rate).await.allowed {
        assert!(began.elapsed() < LONG, "redis does not count again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_costs_one_timeout_per_rest() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    let limiter = RedisLimiter::open(&RedisOptions::new(format!("redis://{}", proxy.address()))).unwrap();
    let rate = Rate { per_minute: 60_000 };
    limiter.take("ann", rate).await;
    proxy.set(Mode::Hang);
    let began = Instant::now();
    for _ in 0..100 {
        assert!(limiter.take("ann", rate).await.allowed);
    }
    assert!(began.elapsed() < RedisOptions::TIMEOUT * 50, "a hundred requests took {:?}", began.elapsed());
}
