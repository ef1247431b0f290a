//! The load of `clapboard bench queue --library-only` on apalis-postgres: `peer-apalis DATABASE_URL JOBS CONCURRENCY IDLE_JOBS`.
//!
//! Prints one JSON object: jobs per second pushed one by one, jobs per second drained, and the milliseconds from the
//! push of a single job to the start of its handler on an idle worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};

static DONE: AtomicUsize = AtomicUsize::new(0);
static STARTED: OnceLock<Mutex<Vec<(usize, Instant)>>> = OnceLock::new();

fn started() -> &'static Mutex<Vec<(usize, Instant)>> {
    STARTED.get_or_init(Mutex::default)
}

async fn handle(job: usize) -> Result<(), BoxDynError> {
    started().lock().unwrap().push((job, Instant::now()));
    DONE.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

async fn until(done: usize) {
    while DONE.load(Ordering::SeqCst) < done {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

async fn push(pool: &PgPool, queue: &str, job: usize) {
    let mut connection = pool.acquire().await.unwrap();
    let task = TaskBuilder::new(serde_json::to_vec(&job).unwrap()).build();
    apalis_postgres::queries::push_tasks(&mut *connection, queue, vec![task]).await.unwrap();
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse::<usize>().unwrap();
    let (jobs, concurrency, idle_jobs) = (number(1), number(2), number(3));
    let pool = PgPool::connect(&arguments[0]).await.unwrap();
    PostgresStorage::setup(&pool).await.unwrap();
    let queue = "peer";

    let began = Instant::now();
    for job in 0..jobs {
        push(&pool, queue, job).await;
    }
    let pushed = jobs as f64 / began.elapsed().as_secs_f64();

    let backend = PostgresStorage::<usize>::new(&pool)
        .with_config(Config::default().queue(queue).batch_size(concurrency))
        .with_pubsub();
    let began = Instant::now();
    let worker = WorkerBuilder::new("peer").backend(backend).concurrency(concurrency).build(handle);
    let running = tokio::spawn(worker.run());
    until(jobs).await;
    let drained = jobs as f64 / began.elapsed().as_secs_f64();

    let mut latencies = Vec::with_capacity(idle_jobs);
    for job in jobs..jobs + idle_jobs {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let sent = Instant::now();
        push(&pool, queue, job).await;
        until(job + 1).await;
        let start = started().lock().unwrap().iter().rev().find(|(id, _)| *id == job).unwrap().1;
        latencies.push(start.duration_since(sent).as_secs_f64() * 1e3);
    }
    running.abort();
    latencies.sort_by(f64::total_cmp);
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share).round() as usize];
    println!(
        r#"{{"peer": "apalis-postgres 1.0.0", "push_per_s": {pushed:.0}, "drain_per_s": {drained:.0}, "idle_p50_ms": {:.2}, "idle_p99_ms": {:.2}}}"#,
        at(0.5),
        at(0.99)
    );
}
