use std::time::Instant;

use clapboard_jobs::{Causes, JobState, Progress, StoreError};
use clapboard_testkit::{FaultProxy, Mode, until};

use super::*;

/// Waits for a short time only, so that a test that waits for the end of it is short too.
fn impatient(options: &Options) -> Options {
    Options {
        acquire_timeout: Duration::from_millis(800),
        statement_timeout: Duration::from_millis(800),
        ..options.clone()
    }
}

/// What any verb of [`impatient`] may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(4);

async fn connect(options: &Options) -> PostgresStore {
    PostgresStore::connect(options, Policy::default()).await.unwrap()
}

async fn found(store: &PostgresStore, id: JobId) -> Result<Option<JobState>, StoreError> {
    Ok(store.get(&Tenant::default(), id).await?.map(|job| job.state))
}

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(refused @ StoreError::Unavailable { .. }) => Causes(&refused).to_string(),
        other => panic!("the store is out of reach, but answered {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_the_store_recovers_by_itself_and_has_lost_nothing() {
    let mut harness = harness().await;
    let store = connect(&impatient(&harness.options)).await;
    for round in 0..2 {
        let job = store.create(new_job()).await.unwrap();
        let lease = store.claim(job.id, &worker()).await.unwrap().unwrap().lease;
        if round == 0 {
            harness.postgres.kill()
        } else {
            harness.postgres.stop()
        }
        for _ in 0..3 {
            let began = Instant::now();
            assert_unavailable(store.create(new_job()).await);
            let told = assert_unavailable(found(&store, job.id).await);
            assert!(!told.contains("postgres://"), "{told}");
            assert!(began.elapsed() < 2 * PATIENCE, "{:?}", began.elapsed());
        }
        harness.postgres.start_again();
        // A connection from before the outage costs at most the verb that finds it broken.
        let mut answer = found(&store, job.id).await;
        for _ in 0..10 {
            if answer.is_ok() {
                break;
            }
            answer = found(&store, job.id).await;
        }
        assert_eq!(answer.unwrap(), Some(JobState::Running));
        store.beat(&lease, &Progress::START).await.unwrap();
        store.finish(&lease, completed(&lease)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_is_not_waited_for() {
    let harness = harness().await;
    let proxy = FaultProxy::start(harness.postgres.address());
    let url = format!("postgres://clapboard@{}/clapboard", proxy.address());
    let store = connect(&impatient(&Options::new(url.parse().unwrap()))).await;
    let job = store.create(new_job()).await.unwrap();

    proxy.set(Mode::Hang);
    let began = Instant::now();
    assert_unavailable(found(&store, job.id).await);
    let lease = Store::claim(&store, job.id, &worker()).await;
    assert_unavailable(lease);
    assert!(began.elapsed() < 2 * PATIENCE, "{:?}", began.elapsed());

    proxy.set(Mode::Pass);
    let began = Instant::now();
    while found(&store, job.id).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(30), "the store did not recover");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_heard_leaves_open_what_became_of_it() {
    let harness = harness().await;
    let proxy = FaultProxy::start(harness.postgres.address());
    let url = format!("postgres://clapboard@{}/clapboard", proxy.address());
    let store = connect(&impatient(&Options::new(url.parse().unwrap()))).await;
    // The statement is prepared by then, so the next answer is that of the insert itself.
    store.create(new_job()).await.unwrap();

    // The first response may be that of a connection which is asked whether it still lives.
    let mut unheard = None;
    for _ in 0..20 {
        let new = new_job();
        // Or which is being put back: not then.
        let put_back = || (store.pool().num_idle() == store.pool().size() as usize).then_some(());
        until("the connections to be put back", put_back);
        proxy.cut_after(0);
        let answer = store.create(new.clone()).await;
        if answer.is_err() {
            assert_unavailable(answer);
            unheard = Some(new);
            break;
        }
    }
    let new = unheard.expect("one of the answers is cut off");
    // The caller finds out by sending it again, under the same id.
    let again = store.create(new.clone()).await;
    match again {
        Ok(job) => assert_eq!(job.id, new.id),
        Err(StoreError::Duplicate { id }) => assert_eq!(id, new.id),
        Err(other) => panic!("{}", Causes(&other)),
    }
    assert_eq!(found(&store, new.id).await.unwrap(), Some(JobState::Queued));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_its_own_beats_while_every_connection_of_another_is_in_use() {
    let harness = harness().await;
    let options = Options { max_connections: 1, ..impatient(&harness.options) };
    let busy = connect(&options).await;
    let job = busy.create(new_job()).await.unwrap();
    let lease = busy.claim(job.id, &worker()).await.unwrap().unwrap().lease;
    let in_use = busy.pool().acquire().await.unwrap();
    let told = assert_unavailable(found(&busy, job.id).await);
    assert!(told.contains("every connection is in use"), "{told}");

    // Made here, connected on the thread that uses it.
    let own = PostgresStore::lazy(&options, Policy::default()).unwrap();
    let beat = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let beat = own.beat(&lease, &Progress::START).await;
            own.close().await;
            beat
        })
    });
    let beat = tokio::task::spawn_blocking(|| beat.join().unwrap()).await.unwrap();
    assert!(!beat.unwrap().cancel_requested);
    drop(in_use);
    let began = Instant::now();
    while found(&busy, job.id).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(30), "the connection did not come back");
    }
}

#[tokio::test]
async fn a_row_that_somebody_holds_is_not_waited_for_without_end() {
    let harness = harness().await;
    let store = connect(&impatient(&harness.options)).await;
    let job = store.create(new_job()).await.unwrap();
    let mut held = harness.store.pool().begin().await.unwrap();
    sqlx::query("select from jobs for update").execute(&mut *held).await.unwrap();
    let began = Instant::now();
    let told = assert_unavailable(store.cancel(&Tenant::default(), job.id).await);
    assert!(told.contains("lock timeout"), "{told}");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    // A claim does not wait at all.
    assert_eq!(store.claim(job.id, &worker()).await.unwrap(), None);
    held.rollback().await.unwrap();
    store.cancel(&Tenant::default(), job.id).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_rolled_back_for_anothers_sake_is_done_again_a_few_times() {
    let harness = harness().await;
    harness
        .meddle(
            "create sequence tries;
             create function fail_first() returns trigger language plpgsql as $$
             begin
                 -- A sequence counts on when its transaction is rolled back.
                 if nextval('tries') <= 2 then
                     raise exception 'somebody else goes first' using errcode = 'deadlock_detected';
                 end if;
                 return new;
             end $$;
             create trigger fail_first before insert on jobs for each row execute function fail_first();",
        )
        .await;
    let job = harness.store.create(new_job()).await.unwrap();
    assert_eq!(harness.number("select last_value from tries").await, 3);
    assert_eq!(found(&harness.store, job.id).await.unwrap(), Some(JobState::Queued));

    harness.meddle("alter sequence tries minvalue -1000 restart with -1000").await;
    let told = assert_unavailable(harness.store.create(new_job()).await);
    assert!(told.contains("somebody else goes first"), "{told}");
    assert_eq!(harness.number("select last_value from tries").await, -997);
}
