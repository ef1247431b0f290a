//! The dispatcher in Redis against real servers that fail.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_dispatch::{RedisDispatch, RedisOptions};
use clapboard_h3::Partition;
use clapboard_jobs::conformance::dispatch::WINDOW;
use clapboard_jobs::{CapacityClass, Causes, Dispatch, DispatchError, Hint, JobId, Queue};
use clapboard_testkit::{FaultProxy, Mode, Redis, free_port};
use redis::{Cmd, Connection, FromRedisValue, cmd};
use tokio::task::JoinHandle;

/// Longer than anything here takes; only a failure waits for it.
const LONG: Duration = Duration::from_secs(60);
/// How long a server is left alone after a failure.
const REST: Duration = Duration::from_secs(1);

const FIRST: Queue = Queue::of(Partition::Fl2va, CapacityClass::SMALLEST);
const SECOND: Queue = Queue::of(Partition::Ref2va, CapacityClass::SMALLEST);
const FIRST_KEY: &str = "clapboard:hints:fl2va:8k";

fn open(url: &str) -> RedisDispatch {
    RedisDispatch::open(&RedisOptions { window: WINDOW, timeout: LONG, ..RedisOptions::new(url) }).unwrap()
}

/// Opens a dispatcher with the usual timeout.
fn open_impatient(url: &str) -> RedisDispatch {
    RedisDispatch::open(&RedisOptions::new(url)).unwrap()
}

fn hint(queue: Queue, rank: f64) -> Hint {
    Hint { queue, rank, job: JobId::new() }
}

async fn pop(dispatch: &RedisDispatch) -> Option<Hint> {
    dispatch.pop(&[FIRST, SECOND], Duration::ZERO).await.unwrap()
}

fn pop_in_background(dispatch: &RedisDispatch) -> JoinHandle<Result<Option<Hint>, DispatchError>> {
    let dispatch = dispatch.clone();
    tokio::spawn(async move { dispatch.pop(&[FIRST, SECOND], LONG).await })
}

fn shown(error: &DispatchError) -> String {
    format!("{} {error:?}", Causes(error))
}

/// Asks the server by a connection of the test's own.
fn ask<T: FromRedisValue>(redis: &Redis, command: &Cmd) -> T {
    let mut connection: Connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    command.query(&mut connection).unwrap()
}

fn blocked_clients(redis: &Redis) -> usize {
    let info: String = ask(redis, cmd("INFO").arg("clients"));
    info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().parse().unwrap()
}

/// Tries again and again until there is something.
async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(began.elapsed() < LONG, "waited {LONG:?} for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

mod conformance {
    use super::*;

    clapboard_jobs::dispatch_conformance!(async {
        let redis = Redis::start();
        (Arc::new(open(&redis.url())) as Arc<dyn Dispatch>, redis)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_survives_exactly() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    let ranks = [-1e300, -0.1, 5e-324, 0.1 + 0.2, 1.0 + f64::EPSILON, 123_456_789.123_456_79, f64::MAX];
    let hints = ranks.map(|rank| hint(FIRST, rank));
    dispatch.push(&hints).await.unwrap();
    for expected in hints {
        assert_eq!(pop(&dispatch).await, Some(expected));
    }
    // The same by the way of those who wait.
    for expected in hints {
        let waiting = pop_in_background(&dispatch);
        until("a waiting pop", async || (blocked_clients(&redis) == 1).then_some(())).await;
        dispatch.push(&[expected]).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_push_to_several_queues_wakes_a_worker_by_the_lowest_rank() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    for _ in 0..20 {
        let waiting = pop_in_background(&dispatch);
        until("a waiting pop", async || (blocked_clients(&redis) == 1).then_some(())).await;
        let hints = [hint(FIRST, 3.0), hint(FIRST, 2.0), hint(SECOND, 1.0)];
        dispatch.push(&hints).await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), Some(hints[2]));
        assert_eq!((pop(&dispatch).await, pop(&dispatch).await), (Some(hints[1]), Some(hints[0])));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_jobs_leave_room_for_those_that_are_known_to_be_ready() {
    let redis = Redis::start();
    let scheduler = open(&redis.url());
    let api = open(&redis.url()).for_new_jobs();
    let half = WINDOW / 2;
    // A tenant at its cap sends far more than a window holds, all of them of lower ranks than what is ready.
    let new: Vec<Hint> = (0..5 * WINDOW).map(|place| hint(FIRST, place as f64)).collect();
    for hint in &new[..half + 3] {
        api.push(&[*hint]).await.unwrap();
    }
    api.push(&new[half + 3..]).await.unwrap();
    assert_eq!(api.len(FIRST).await.unwrap(), half as u64);
    let ready: Vec<Hint> = (0..half).map(|place| hint(FIRST, 1e6 + place as f64)).collect();
    scheduler.push(&ready).await.unwrap();
    api.push(&[hint(FIRST, -1.0), hint(SECOND, 2e6)]).await.unwrap();
    assert_eq!(scheduler.len(FIRST).await.unwrap(), WINDOW as u64);
    for expected in new[..half].iter().chain(&ready) {
        assert_eq!(pop(&scheduler).await.as_ref(), Some(expected));
    }
    // Another queue has room of its own.
    assert_eq!(pop(&scheduler).await.unwrap().queue, SECOND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_job_is_hinted_at_once_more_where_there_is_room_again() {
    let redis = Redis::start();
    let api = open(&redis.url()).for_new_jobs();
    let several: Vec<Hint> = (0..2 * WINDOW).map(|place| hint(FIRST, place as f64)).collect();
    api.push(&several).await.unwrap();
    assert_eq!(pop(&api).await, Some(several[0]));
    let urgent = hint(FIRST, -1.0);
    api.push(&[urgent]).await.unwrap();
    assert_eq!(pop(&api).await, Some(urgent));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_the_hints() {
    let redis = Redis::start();
    let (api, worker) = (open(&redis.url()), open(&redis.url()));
    let elsewhere = RedisOptions { prefix: "other".to_owned(), ..RedisOptions::new(redis.url()) };
    let elsewhere = RedisDispatch::open(&elsewhere).unwrap();
    let expected = hint(FIRST, 1.0);
    api.push(&[expected]).await.unwrap();
    assert_eq!(pop(&elsewhere).await, None);
    assert_eq!(pop(&worker).await, Some(expected));
    assert_eq!(api.len(FIRST).await.unwrap(), 0);
    let keys: Vec<String> = ask(&redis, cmd("KEYS").arg("*"));
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pop_dropped_while_it_waits_leaves_the_next_hint_to_others() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    for _ in 0..20 {
        let waiting: Vec<_> = (0..3).map(|_| pop_in_background(&dispatch)).collect();
        until("three waiting pops", async || (blocked_clients(&redis) == 3).then_some(())).await;
        for pop in waiting {
            pop.abort();
            assert!(pop.await.is_err_and(|error| error.is_cancelled()));
        }
        let expected = hint(FIRST, 1.0);
        dispatch.push(&[expected]).await.unwrap();
        assert_eq!(pop(&dispatch).await, Some(expected));
        until("the end of every wait", async || (blocked_clients(&redis) == 0).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_that_comes_while_pops_are_dropped_is_never_lost() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    for round in 0..300_u64 {
        let waiting = pop_in_background(&dispatch);
        if round % 3 == 0 {
            until("a waiting pop", async || (blocked_clients(&redis) == 1).then_some(())).await;
        }
        let expected = hint(FIRST, 1.0);
        let pushing = {
            let dispatch = dispatch.clone();
            tokio::spawn(async move { dispatch.push(&[expected]).await })
        };
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        let popped = match waiting.await {
            Ok(popped) => popped.unwrap(),
            Err(error) => {
                assert!(error.is_cancelled());
                None
            }
        };
        pushing.await.unwrap().unwrap();
        let found = match popped {
            Some(popped) => Some(popped),
            None => pop(&dispatch).await,
        };
        assert_eq!(found, Some(expected), "round {round}");
        assert_eq!(pop(&dispatch).await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_loses_hints_and_nothing_else() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    dispatch.push(&[hint(FIRST, 1.0)]).await.unwrap();
    redis.flush();
    assert_eq!(pop(&dispatch).await, None);
    let waiting = pop_in_background(&dispatch);
    until("a waiting pop", async || (blocked_clients(&redis) == 1).then_some(())).await;
    redis.flush();
    let expected = hint(SECOND, 1.0);
    dispatch.push(&[expected]).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Some(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_snapshot_brings_back_old_hints_and_nothing_worse() {
    let mut redis = Redis::with_snapshots();
    let dispatch = open(&redis.url());
    let (old, new) = (hint(FIRST, 1.0), hint(FIRST, 2.0));
    dispatch.push(&[old]).await.unwrap();
    redis.save();
    assert_eq!(pop(&dispatch).await, Some(old));
    dispatch.push(&[new]).await.unwrap();
    redis.kill();
    redis.start_again();
    assert_eq!(pop(&dispatch).await, Some(old));
    assert_eq!(pop(&dispatch).await, None);
    dispatch.push(&[new]).await.unwrap();
    assert_eq!(pop(&dispatch).await, Some(new));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_are_no_ids_are_dropped() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    let expected = hint(FIRST, 1.0);
    dispatch.push(&[expected]).await.unwrap();
    let strangers =
        cmd("ZADD").arg(FIRST_KEY).arg(&["-inf", "stranger", "0", "another"]).arg(0.5).arg(&[0xff_u8]).to_owned();
    assert_eq!(ask::<i64>(&redis, &strangers), 3);
    assert_eq!(pop(&dispatch).await, Some(expected));
    let waiting = pop_in_background(&dispatch);
    until("a waiting pop", async || (blocked_clients(&redis) == 1).then_some(())).await;
    assert_eq!(ask::<i64>(&redis, cmd("ZADD").arg(FIRST_KEY).arg(1).arg("stranger")), 1);
    dispatch.push(&[expected]).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Some(expected));
    assert_eq!(dispatch.len(FIRST).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_of_another_type_is_an_error_that_names_it() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    ask::<()>(&redis, cmd("SET").arg(FIRST_KEY).arg("text"));
    let others = [hint(SECOND, 1.0), hint(FIRST, 2.0)];
    let errors = [
        dispatch.push(&others).await.unwrap_err(),
        dispatch.for_new_jobs().push(&others).await.unwrap_err(),
        dispatch.len(FIRST).await.unwrap_err(),
        dispatch.pop(&[SECOND, FIRST], Duration::ZERO).await.unwrap_err(),
    ];
    for error in errors {
        let shown = shown(&error);
        assert!(shown.contains(FIRST_KEY) && shown.contains("WRONGTYPE"), "{shown}");
    }
    // The other queues go on.
    assert_eq!(dispatch.len(SECOND).await.unwrap(), 1);
    assert_eq!(dispatch.pop(&[SECOND], LONG).await.unwrap(), Some(others[0]));
    ask::<()>(&redis, cmd("DEL").arg(FIRST_KEY));
    dispatch.push(&others).await.unwrap();
    assert_eq!(dispatch.pop(&[FIRST], Duration::ZERO).await.unwrap(), Some(others[1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_become_a_replica_is_left_alone_for_a_moment() {
    let redis = Redis::start();
    ask::<()>(&redis, cmd("REPLICAOF").arg("127.0.0.1").arg(free_port()));
    for dispatch in [open(&redis.url()), open(&redis.url()).for_new_jobs()] {
        let refused = shown(&dispatch.push(&[hint(FIRST, 1.0)]).await.unwrap_err());
        assert!(refused.to_lowercase().contains("read"), "{refused}");
        let resting = shown(&dispatch.push(&[hint(FIRST, 1.0)]).await.unwrap_err());
        assert!(resting.contains("left alone for a moment"), "{resting}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_at_first_is_found_later() {
    let mut redis = Redis::start();
    redis.stop();
    let dispatch = open(&redis.url());
    let expected = hint(FIRST, 1.0);
    let error = dispatch.push(&[expected]).await.unwrap_err();
    assert!(shown(&error).contains("refused"), "{}", shown(&error));
    dispatch.pop(&[FIRST], Duration::ZERO).await.unwrap_err();
    dispatch.len(FIRST).await.unwrap_err();
    redis.start_again();
    until("a push that is heard", async || dispatch.push(&[expected]).await.ok()).await;
    assert_eq!(dispatch.pop(&[FIRST], LONG).await.unwrap(), Some(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_between_two_calls_is_not_noticed() {
    let mut redis = Redis::start();
    let dispatch = open(&redis.url());
    let expected = hint(FIRST, 1.0);
    for _ in 0..3 {
        dispatch.push(&[expected]).await.unwrap();
        assert_eq!(pop(&dispatch).await, Some(expected));
        assert_eq!(dispatch.pop(&[FIRST], Duration::from_millis(5)).await.unwrap(), None);
        redis.kill();
        redis.start_again();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pops_of_a_dead_server_fail_at_the_pace_of_the_rests_and_find_it_again() {
    let mut redis = Redis::start();
    let dispatch = open(&redis.url());
    let waiting = pop_in_background(&dispatch);
    until("a waiting pop", async || (blocked_clients(&redis) == 1).then_some(())).await;
    redis.kill();
    waiting.await.unwrap().unwrap_err();
    let began = Instant::now();
    for _ in 0..3 {
        dispatch.pop(&[FIRST], LONG).await.unwrap_err();
    }
    // The first of them may have found the rest of the last failure almost over, never the others.
    assert!(began.elapsed() >= REST * 2, "three pops failed within {:?}", began.elapsed());
    redis.start_again();
    let expected = hint(FIRST, 1.0);
    until("a push that is heard", async || dispatch.push(&[expected]).await.ok()).await;
    assert_eq!(until("a pop that is heard", async || dispatch.pop(&[FIRST], LONG).await.ok()).await, Some(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_costs_one_timeout_per_rest() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    let dispatch = open_impatient(&format!("redis://{}", proxy.address()));
    until("a push that is heard", async || dispatch.push(&[hint(FIRST, 1.0)]).await.ok()).await;
    proxy.set(Mode::Hang);
    let began = Instant::now();
    let error = dispatch.push(&[hint(FIRST, 2.0)]).await.unwrap_err();
    assert!(began.elapsed() >= RedisOptions::TIMEOUT);
    assert!(shown(&error).contains("did not answer within 100ms"), "{}", shown(&error));
    // Each of them would take the timeout, were it not for the rest.
    let began = Instant::now();
    for _ in 0..100 {
        dispatch.push(&[hint(FIRST, 3.0)]).await.unwrap_err();
    }
    assert!(began.elapsed() < RedisOptions::TIMEOUT * 50, "a hundred pushes took {:?}", began.elapsed());
    let began = Instant::now();
    dispatch.pop(&[FIRST], Duration::ZERO).await.unwrap_err();
    assert!(began.elapsed() < RedisOptions::TIMEOUT * 50);
    proxy.set(Mode::Pass);
    let expected = hint(SECOND, 0.0);
    until("a push that is heard", async || dispatch.push(&[expected]).await.ok()).await;
    let popped =
        until("a pop that is heard", async || dispatch.pop(&[SECOND], Duration::from_secs(2)).await.ok()).await;
    assert_eq!(popped, Some(expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_freezes_under_a_waiting_pop_ends_it() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    let dispatch = open_impatient(&format!("redis://{}", proxy.address()));
    let waiting = until("a waiting pop", async || {
        let waiting = {
            let dispatch = dispatch.clone();
            tokio::spawn(async move { dispatch.pop(&[FIRST], Duration::from_secs(3)).await })
        };
        loop {
            if blocked_clients(&redis) == 1 {
                return Some(waiting);
            }
            if waiting.is_finished() {
                return None;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.set(Mode::Hang);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(shown(&error).contains("did not answer"), "{}", shown(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_used_and_never_shown() {
    let redis = Redis::start();
    let address = redis.address();
    let with = |password: &str| open(&format!("redis://:{password}@{address}/1"));
    ask::<()>(&redis, cmd("CONFIG").arg(&["SET", "requirepass", "right-secret"]));
    let dispatch = with("right-secret");
    let expected = hint(FIRST, 1.0);
    dispatch.push(&[expected]).await.unwrap();
    assert_eq!(pop(&dispatch).await, Some(expected));
    let error = with("wrong-secret").push(&[expected]).await.unwrap_err();
    let shown = format!("{} {dispatch:?}", shown(&error));
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_to_a_server_that_does_not_speak_it_is_an_error() {
    let redis = Redis::start();
    for _ in 0..2 {
        let dispatch = open_impatient(&format!("rediss://{}", redis.address()));
        dispatch.push(&[hint(FIRST, 1.0)]).await.unwrap_err();
    }
    let nobody = open_impatient(&format!("rediss://127.0.0.1:{}", free_port()));
    nobody.push(&[hint(FIRST, 1.0)]).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_works_with_a_certificate_that_is_trusted_and_with_no_other() {
    let redis = Redis::with_tls();
    let error = open(&redis.tls_url()).push(&[hint(FIRST, 1.0)]).await.unwrap_err();
    assert!(shown(&error).contains("certificate"), "{}", shown(&error));
    // What is trusted is a matter of the process.
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pushes_and_pops_at_a_url", "--ignored"])
        .env("SSL_CERT_FILE", redis.certificate())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    client.stdin.take().unwrap().write_all(redis.tls_url().as_bytes()).unwrap();
    assert!(client.wait().unwrap().success());
}

/// Not a test: the client of the test above, which reads a URL from its input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is run by a test of this file"]
async fn pushes_and_pops_at_a_url() {
    let url = std::io::read_to_string(std::io::stdin()).unwrap();
    if url.is_empty() {
        return;
    }
    let dispatch = open(&url);
    let waiting = pop_in_background(&dispatch);
    let expected = hint(FIRST, 1.0);
    dispatch.push(&[expected]).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Some(expected));
}

#[tokio::test]
async fn a_server_tells_of_itself_to_those_who_may_ask() {
    let redis = Redis::start();
    let dispatch = open(&redis.url());
    let facts = dispatch.facts().await.unwrap();
    let version = facts.version.clone().unwrap();
    assert!(version.split('.').count() == 3 && version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
    assert_eq!(facts.maxmemory_policy.as_deref(), Some("noeviction"));
    assert!(!facts.round_trip.is_zero() && !facts.may_evict_hints() && !facts.is_too_old());

    let _: () = ask(&redis, cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("allkeys-lru"));
    assert!(dispatch.facts().await.unwrap().may_evict_hints());

    let _: () = ask(&redis, cmd("ACL").arg("SETUSER").arg("default").arg("-info"));
    let refused = shown(&dispatch.facts().await.unwrap_err());
    assert!(refused.contains("NOPERM") || refused.contains("NoPerm"), "{refused}");
    // Which is no reason to leave the server alone.
    assert_eq!(dispatch.len(FIRST).await.unwrap(), 0);
}
