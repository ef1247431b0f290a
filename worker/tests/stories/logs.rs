//! What an operator reads of all this.

use std::io::{self, Write};
use std::sync::{Mutex, OnceLock};

use clapboard_engine::Phase as EnginePhase;
use clapboard_jobs::fixtures::small_spec;
use clapboard_jobs::{JobId, JobState, NewJob, Status};

use crate::house::House;
use crate::scripted::{Gate, Opener, Scripted};

/// Everything that was logged in this process, whichever story logged it.
#[derive(Clone, Copy)]
pub(crate) struct Book;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Write for Book {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Book {
    pub(crate) fn open() -> Self {
        static OPENED: OnceLock<()> = OnceLock::new();
        OPENED.get_or_init(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Book).init());
        Self
    }

    /// The lines that tell of a job's attempts.
    pub(crate) fn of(self, id: JobId) -> Vec<String> {
        let lines = LINES.lock().unwrap().clone();
        let lines = String::from_utf8(lines).unwrap();
        lines.lines().filter(|line| line.contains(&id.to_string())).map(str::to_owned).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_deleted_under_its_worker_is_no_warning() {
    let book = Book::open();
    let house = House::new().await;
    let worker = house.start(Scripted::new(|play| Err(play.denoise_for_ever())));
    let id = house.submit().await;
    house.until(id, |job| job.status() == Status::InProgress).await;
    house.store.delete(&house.tenant, id).await.unwrap();
    // The next job begins when the worker has let go of the first.
    let next = house.submit().await;
    house.until(next, |job| job.status() == Status::InProgress).await;
    worker.stop().await.unwrap();
    let lines = book.of(id);
    assert!(lines.iter().all(|line| !line.contains(" WARN ") && !line.contains(" ERROR ")), "{lines:#?}");
    let told = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((told("the job was deleted, given away"), told("the attempt is discarded")), (1, 1), "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phase_is_told_of_when_it_ends() {
    let book = Book::open();
    let house = House::new().await;
    let gate = Gate::default();
    let _open = Opener(gate.clone());
    let denoising = Gate::default();
    let worker = house.start(Scripted::new({
        let (gate, denoising) = (gate.clone(), denoising.clone());
        move |play| {
            play.denoise()?;
            denoising.open();
            gate.wait();
            play.media()?;
            Ok(play.report())
        }
    }));
    let id = house.submit().await;
    tokio::task::spawn_blocking(move || denoising.wait()).await.unwrap();
    let done = |phase: EnginePhase| {
        let (done, field) = ("a phase is done", format!("phase={phase} "));
        book.of(id).iter().filter(|line| line.contains(done) && line.contains(&field)).count()
    };
    assert_eq!(EnginePhase::ALL.map(done), [1, 0, 0, 0, 0]);
    gate.open();
    house.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
    assert_eq!(EnginePhase::ALL.map(done), [1, 0, 1, 1, 1], "{:#?}", book.of(id));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_job_names_the_trace_that_its_client_has_named() {
    let book = Book::open();
    let house = House::new().await;
    let worker = house.start(Scripted::honest());
    let untraced = house.submit_quietly().await.id;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    let new = NewJob { trace: Some(trace), ..NewJob::new(house.tenant.clone(), "h3", &small_spec()) };
    let traced = house.store.create(new).await.unwrap().id;
    for id in [untraced, traced] {
        house.until_state(id, JobState::Completed).await;
    }
    worker.stop().await.unwrap();
    let told: Vec<String> = book.of(traced).into_iter().filter(|line| line.contains("attempt{")).collect();
    let names = |line: &String| line.contains("job.trace=\"0af7651916cd43dd8448eb211c80319c\"");
    assert!(!told.is_empty() && told.iter().all(names), "{told:#?}");
    assert!(book.of(untraced).iter().all(|line| !line.contains("job.trace")), "{:#?}", book.of(untraced));
}
