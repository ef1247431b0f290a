//! Writing lines on a thread of its own: whoever logs never waits for whoever reads.
//!
//! A pipe that nobody reads takes no more once it is full, and a thread that writes to it stands still, be it the one that
//! keeps a worker's leases. So lines wait in a queue, and those for which there is no room are lost and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// How many lines may wait: those of some seconds of a busy service.
const MOST_WAITING: usize = 8192;

/// How long the end of a process waits for its last lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// How long it rests before it looks again whether there is room.
const REST: Duration = Duration::from_millis(5);

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// All lines before are written.
    Flush(SyncSender<()>),
}

/// Where lines are put to be written.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    entries: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

/// Waits for the last lines of the log when dropped, though not for long.
#[derive(Debug, Clone)]
#[must_use = "the last lines of the log are lost unless this lives as long as the process"]
pub struct LastLines(SyncSender<Entry>);

/// Starts the thread that writes to `sink`, and what `notice` says of how many lines were lost.
///
/// Errors: what the system said.
pub(super) fn start(
    sink: impl Write + Send + 'static,
    notice: impl Fn(u64) -> String + Send + 'static,
) -> io::Result<(Queue, LastLines)> {
    let (entries, waiting) = mpsc::sync_channel(MOST_WAITING);
    let lost = Arc::new(AtomicU64::new(0));
    let queue = Queue { entries: entries.clone(), lost: Arc::clone(&lost) };
    thread::Builder::new().name("log".to_owned()).spawn(move || write_all(sink, &waiting, &lost, &notice))?;
    Ok((queue, LastLines(entries)))
}

/// Writes what waits, until nobody can put anything into the queue any more.
fn write_all(mut sink: impl Write, waiting: &Receiver<Entry>, lost: &AtomicU64, notice: &dyn Fn(u64) -> String) {
    for entry in waiting {
        match entry {
            Entry::Line(line) => {
                // Nobody reads any more: there is nobody to tell either.
                let _ = sink.write_all(&line);
                let count = lost.swap(0, Ordering::Relaxed);
                if count > 0 {
                    // Past the queue, in which it could be lost as well.
                    let _ = sink.write_all(notice(count).as_bytes());
                }
            }
            Entry::Flush(done) => {
                // Who has asked may have given up waiting.
                let _ = done.try_send(());
            }
        }
    }
}

impl Write for Queue {
    /// Takes one line, or loses it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.entries.try_send(Entry::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl LastLines {
    /// Waits until what was logged before is written, though not for long.
    pub fn flush(&self) {
        let deadline = Instant::now() + FLUSH_PATIENCE;
        let (done, flushed) = mpsc::sync_channel(1);
        let mut entry = Entry::Flush(done);
        loop {
            entry = match self.0.try_send(entry) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(entry)) => entry,
            };
            if Instant::now() >= deadline {
                return;
            }
            thread::sleep(REST);
        }
        let _ = flushed.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Drop for LastLines {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A reader that reads nothing before it may, and what it has read.
    struct Slow {
        may_read: Receiver<()>,
        read: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Ends when the sender is dropped.
            let _ = self.may_read.recv();
            self.read.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_logs_does_not_wait_for_who_reads_and_what_was_kept_comes_in_order() {
        let (reads, may_read) = mpsc::channel();
        let read = Arc::new(Mutex::new(Vec::new()));
        let (mut queue, last_lines) =
            start(Slow { may_read, read: Arc::clone(&read) }, |lost| format!("{lost} lost\n")).unwrap();
        let most = MOST_WAITING + 100;
        for number in 0..most {
            queue.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let lost = queue.lost.load(Ordering::Relaxed);
        // One line may be with the reader already.
        assert!((99..=100).contains(&lost), "{lost}");
        drop(reads);
        let kept = most - usize::try_from(lost).unwrap();
        // The loss is told of once, behind the line that the reader stood still at.
        let notice = |number| if number == 0 { format!("{lost} lost\n") } else { String::new() };
        let expected: String = (0..kept).map(|number| format!("{number}\n{}", notice(number))).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        while read.lock().unwrap().len() < expected.len() && Instant::now() < deadline {
            thread::sleep(REST);
        }
        assert!(*read.lock().unwrap() == expected.as_bytes());
        drop(last_lines);
    }

    #[test]
    fn the_end_does_not_wait_for_long_for_a_reader_that_reads_nothing() {
        let (_reads, may_read) = mpsc::channel();
        let (mut queue, last_lines) = start(Slow { may_read, read: Arc::default() }, |_| String::new()).unwrap();
        queue.write_all(b"line\n").unwrap();
        let begun = Instant::now();
        drop(last_lines);
        assert!(begun.elapsed() >= FLUSH_PATIENCE);
    }
}
