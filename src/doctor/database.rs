//! The database: whether it answers, has our tables, serves all connections that may be asked for, and no pooler is in the
//! way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clapboard_jobs::{Causes, Clock, Micros, Policy, Store, StoreError, SystemClock};
use clapboard_store_postgres::{Options, Pooling, PostgresStore};
use tokio::task::JoinSet;

use super::finding::Finding;

const ABOUT: &str = "postgres";

/// How far the clocks may be apart before it is told. S3 refuses requests at 15 minutes.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Examines the database; nothing in it is changed.
pub(super) async fn examine(options: &Options) -> Vec<Finding> {
    let store = match PostgresStore::connect(options, Policy::default()).await {
        Ok(store) => Arc::new(store),
        Err(error) => return vec![Finding::fail(ABOUT, Causes(&error).to_string())],
    };
    let address = options.url.address();
    let mut findings = vec![Finding::ok(ABOUT, format!("{address} answers, and its tables are those that are needed"))];
    findings.extend(examine_server(&store).await);
    findings.push(examine_connections(&store, options.max_connections).await);
    findings.push(examine_clock(&store).await);
    store.close().await;
    findings
}

async fn examine_server(store: &PostgresStore) -> Vec<Finding> {
    match store.facts().await {
        Ok(facts) => {
            vec![Finding::ok(ABOUT, format!("is PostgreSQL {}", facts.version)), pooler(facts.pooling)]
        }
        Err(error) => vec![Finding::fail(
            ABOUT,
            format!("{}: a pooler has to be in session mode, nothing works through others", Causes(&error)),
        )],
    }
}

fn pooler(pooling: Pooling) -> Finding {
    match pooling {
        Pooling::NotSeen => Finding::ok(ABOUT, "there is no sign of a pooler"),
        Pooling::Sessions => Finding::warn(
            ABOUT,
            "there is a pooler: it has to stay in session mode, and needs room for the connections of all processes",
        ),
        Pooling::Transactions => Finding::fail(
            ABOUT,
            "there is a pooler in transaction mode, through which nothing works; in session mode it does",
        ),
    }
}

/// Uses every connection at the same moment: the server may allow fewer, and a pooler in transaction mode may mix them
/// up.
async fn examine_connections(store: &Arc<PostgresStore>, connections: u32) -> Finding {
    let mut requests = JoinSet::new();
    // Each connection has its second request while others still have their first.
    for _ in 0..connections.saturating_mul(2) {
        let store = Arc::clone(store);
        requests.spawn(async move { store.now().await });
    }
    for answer in requests.join_all().await {
        if let Err(error) = answer {
            let cause = Causes(&error);
            return Finding::fail(
                ABOUT,
                format!(
                    "{connections} connections do not work at once ({cause}): --database-connections is more than the \
                     server allows, or a pooler in transaction mode stands before it, through which nothing works"
                ),
            );
        }
    }
    Finding::ok(ABOUT, format!("{connections} connections work at once"))
}

async fn examine_clock(store: &PostgresStore) -> Finding {
    match clock_difference(store).await {
        Err(error) => Finding::fail(ABOUT, Causes(&error).to_string()),
        Ok((ahead, behind, took)) => {
            // What the request itself took may be in the difference.
            clocks(ahead.saturating_sub(took / 2), behind.saturating_sub(took / 2), took)
        }
    }
}

/// Says whether the clocks agree, of which ours is at least that much ahead or behind.
fn clocks(ahead: Duration, behind: Duration, took: Duration) -> Finding {
    let apart = ahead.max(behind);
    if apart > CLOCK_TOLERANCE {
        let which = if ahead > behind { "ahead of" } else { "behind" };
        let text = format!("this machine's clock is {apart:.1?} {which} the server's");
        Finding::warn(ABOUT, format!("{text}: harmless, since jobs go by the server's alone; S3 refuses 15 minutes"))
    } else {
        Finding::ok(ABOUT, format!("a request takes {took:.1?}, and the clocks agree within a second"))
    }
}

/// Returns by how much this machine's clock is ahead or behind, at most by half a request wrong, and how long that
/// took.
async fn clock_difference(store: &PostgresStore) -> Result<(Duration, Duration, Duration), StoreError> {
    let (begun, before) = (Instant::now(), SystemClock.now());
    let server = store.now().await?;
    let took = begun.elapsed();
    let (ahead, behind) = apart(before.plus(took / 2), server);
    Ok((ahead, behind, took))
}

/// How much the first moment is after the second, and how much before it; one of them is zero.
fn apart(ours: Micros, theirs: Micros) -> (Duration, Duration) {
    (ours.since(theirs), theirs.since(ours))
}

#[cfg(test)]
mod tests {
    use clapboard_store_postgres::migrate;
    use clapboard_testkit::Postgres;

    use super::super::finding::Verdict;
    use super::*;

    fn verdicts(findings: &[Finding]) -> Vec<Verdict> {
        findings.iter().map(|finding| finding.verdict).collect()
    }

    #[tokio::test]
    async fn a_server_of_ours_is_well_and_what_is_missing_is_a_failure() {
        let postgres = Postgres::start();
        let options =
            Options { acquire_timeout: Duration::from_secs(60), ..Options::new(postgres.url().parse().unwrap()) };
        let unmigrated = examine(&options).await;
        assert_eq!(verdicts(&unmigrated), [Verdict::Fail]);
        assert!(unmigrated[0].to_string().contains("run `clapboard migrate`"), "{unmigrated:?}");

        migrate(&options).await.unwrap();
        let findings = examine(&options).await;
        assert_eq!(verdicts(&findings), [Verdict::Ok; 5], "{findings:?}");
        assert!(findings.iter().any(|finding| finding.to_string().contains("is PostgreSQL 1")), "{findings:?}");
    }

    #[test]
    fn clocks_that_differ_by_more_than_a_second_are_told_and_a_pooler_is() {
        let (none, second, took) = (Duration::ZERO, Duration::from_secs(1), Duration::from_millis(2));
        assert_eq!(clocks(none, second, took).verdict, Verdict::Ok);
        assert_eq!(
            clocks(none, second * 3 / 2, took).to_string(),
            "warn  postgres  this machine's clock is 1.5s behind the server's: harmless, since jobs go by the server's \
             alone; S3 refuses 15 minutes"
        );
        assert!(clocks(second * 2, none, took).to_string().contains("2.0s ahead of"));
        let verdicts =
            [Pooling::NotSeen, Pooling::Sessions, Pooling::Transactions].map(|pooling| pooler(pooling).verdict);
        assert_eq!(verdicts, [Verdict::Ok, Verdict::Warn, Verdict::Fail]);
    }
}
