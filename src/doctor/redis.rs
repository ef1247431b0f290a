//! Redis: whether it answers, how fast, and whether it keeps what it is given.

use std::time::Duration;

use clapboard_dispatch::{RedisDispatch, RedisFacts, RedisOptions};
use clapboard_h3::Partition;
use clapboard_jobs::{CapacityClass, Causes, Dispatch, DispatchError, Queue};

use super::finding::Finding;

const ABOUT: &str = "redis";

/// How long an answer is waited for, however little the services would.
const PATIENCE: Duration = Duration::from_secs(5);

/// Examines the server; nothing in it is changed.
pub(super) async fn examine(options: &RedisOptions) -> Vec<Finding> {
    let patient = RedisOptions { timeout: options.timeout.max(PATIENCE), ..options.clone() };
    let dispatch = match RedisDispatch::open(&patient) {
        Ok(dispatch) => dispatch,
        Err(error) => return vec![Finding::fail(ABOUT, Causes(&error).to_string())],
    };
    let hints = match count(&dispatch).await {
        Ok(hints) => hints,
        Err(error) => {
            let text = format!("{}: no job is lost, and each begins up to a poll interval later", Causes(&error));
            return vec![Finding::fail(ABOUT, text)];
        }
    };
    let mut findings = vec![Finding::ok(ABOUT, format!("{hints} hints wait"))];
    match dispatch.facts().await {
        Ok(facts) => findings.extend([version(&facts), memory(&facts), speed(facts.round_trip, options.timeout)]),
        Err(error) => {
            findings.push(Finding::warn(ABOUT, format!("what it is and how fast is not known: {}", Causes(&error))));
        }
    }
    findings
}

/// Counts all hints.
async fn count(dispatch: &RedisDispatch) -> Result<u64, DispatchError> {
    let queues: Vec<Queue> = Partition::ALL
        .into_iter()
        .flat_map(|partition| CapacityClass::all().map(move |class| Queue::of(partition, class)))
        .collect();
    let mut hints = 0;
    for queue in queues {
        hints += dispatch.len(queue).await?;
    }
    Ok(hints)
}

fn version(facts: &RedisFacts) -> Finding {
    match &facts.version {
        None => Finding::warn(ABOUT, "does not say which version of Redis it is; 6.0 or later is needed"),
        Some(version) if facts.is_too_old() => {
            Finding::warn(ABOUT, format!("is Redis {version}, and 6.0 or later is needed: jobs begin later without it"))
        }
        Some(version) => Finding::ok(ABOUT, format!("is Redis {version}")),
    }
}

/// Says whether hints stay until they are taken.
fn memory(facts: &RedisFacts) -> Finding {
    match &facts.maxmemory_policy {
        None => Finding::warn(ABOUT, "does not say what it throws away when its memory is full; noeviction is best"),
        Some(policy) if facts.may_evict_hints() => Finding::warn(
            ABOUT,
            format!(
                "its maxmemory-policy is {policy}: it may throw hints away, which is harmless, but their jobs begin some \
                 seconds later; noeviction is best"
            ),
        ),
        Some(policy) => Finding::ok(ABOUT, format!("its maxmemory-policy, {policy}, throws no hints away")),
    }
}

/// Says whether the services would have had the patience.
fn speed(took: Duration, limit: Duration) -> Finding {
    if took < limit {
        Finding::ok(ABOUT, format!("answers within {took:.1?}"))
    } else {
        Finding::warn(
            ABOUT,
            format!("answers after {took:.1?}, and --redis-timeout gives it {limit:?}: it counts as away"),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpStream;

    use clapboard_testkit::Redis;

    use super::super::finding::Verdict;
    use super::*;

    fn tell(redis: &Redis, command: &str) {
        let mut connection = TcpStream::connect(redis.address()).unwrap();
        connection.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer).unwrap();
        assert_eq!(answer, "+OK\r\n", "{command}");
    }

    /// The findings that are not as they should be, and the worst verdict.
    async fn complaints(redis: &Redis) -> (Vec<String>, Option<Verdict>) {
        let options = RedisOptions { timeout: Duration::from_secs(60), ..RedisOptions::new(redis.url()) };
        let findings = examine(&options).await;
        let bad = findings.iter().filter(|finding| finding.verdict != Verdict::Ok).map(ToString::to_string).collect();
        (bad, findings.iter().map(|finding| finding.verdict).max())
    }

    #[tokio::test]
    async fn a_server_that_may_throw_hints_away_is_told_and_is_no_failure() {
        let mut redis = Redis::start();
        assert_eq!(complaints(&redis).await, (vec![], Some(Verdict::Ok)));
        tell(&redis, "CONFIG SET maxmemory-policy volatile-lru");
        assert_eq!(complaints(&redis).await, (vec![], Some(Verdict::Ok)));

        tell(&redis, "CONFIG SET maxmemory-policy allkeys-lru");
        let (told, worst) = complaints(&redis).await;
        assert_eq!((told.len(), worst), (1, Some(Verdict::Warn)));
        assert!(told[0].contains("its maxmemory-policy is allkeys-lru: it may throw hints away"), "{told:?}");

        tell(&redis, "ACL SETUSER default -info");
        let (told, worst) = complaints(&redis).await;
        assert_eq!((told.len(), worst), (1, Some(Verdict::Warn)));
        assert!(told[0].contains("what it is and how fast is not known"), "{told:?}");

        redis.kill();
        assert_eq!(complaints(&redis).await.1, Some(Verdict::Fail));
    }

    #[test]
    fn a_server_that_is_too_old_is_told() {
        let facts = |version: &str| RedisFacts {
            version: Some(version.to_owned()),
            maxmemory_policy: None,
            round_trip: Duration::ZERO,
        };
        assert_eq!(version(&facts("7.0.15")).to_string(), "ok    redis     is Redis 7.0.15");
        assert_eq!(version(&facts("5.0.14")).verdict, Verdict::Warn);
    }

    #[test]
    fn a_server_slower_than_the_services_wait_is_told() {
        let limit = Duration::from_millis(100);
        assert_eq!(speed(Duration::from_millis(2), limit).to_string(), "ok    redis     answers within 2.0ms");
        let slow = speed(Duration::from_millis(250), limit).to_string();
        assert_eq!(
            slow,
            "warn  redis     answers after 250.0ms, and --redis-timeout gives it 100ms: it counts as away"
        );
    }
}
