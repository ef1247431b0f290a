//! What an engine's fingerprint names, and what it leaves out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clapboard_engine::checkpoint::Layout;
use clapboard_engine::checkpoint::tiny::write_tiny;
use clapboard_engine::video_vae::DecodePrecision;
use clapboard_engine::{
    ComputeDtype, Continuation, Engine, EngineConfig, EngineHandle, FrameSink, MediaChunk, MediaFormat, MemoryBounds,
    NoCheckpoints, NoTap, SinkError, Uninterrupted, Unwatched,
};
use clapboard_h3::{Partition, VideoRequest};

fn tiny(folder: &Path, seed: u64, layout: Layout) -> PathBuf {
    let checkpoint = folder.join(format!("{seed} {layout}"));
    write_tiny(seed, layout, &checkpoint).expect("a tiny checkpoint can be written");
    checkpoint
}

fn fingerprint(config: &EngineConfig) -> String {
    Engine::load(config).expect("the tiny checkpoint loads").fingerprint().to_owned()
}

#[test]
fn the_same_weights_have_the_same_fingerprint_wherever_they_lie() {
    let (here, there) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let [here, there] = [&here, &there].map(|folder| tiny(folder.path(), 3, Layout::Original));
    let config = EngineConfig::new(&here, Partition::Fl2va);
    let first = fingerprint(&config);
    assert!(first.len() == 64 && first.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{first}");
    assert_eq!(first, fingerprint(&config));
    assert_eq!(first, fingerprint(&EngineConfig::new(there, Partition::Fl2va)));
    assert_eq!(
        first,
        EngineHandle::start(config).expect("it starts").fingerprint(Partition::Fl2va).expect("it is served")
    );
}

#[test]
fn whatever_changes_bits_changes_the_fingerprint() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = EngineConfig::new(tiny(folder.path(), 3, Layout::Original), Partition::Fl2va);
    let bounds = MemoryBounds::default();
    let attention = MemoryBounds { attention_bytes: bounds.attention_bytes / 2, ..bounds };
    let feed_forward = MemoryBounds { feed_forward_bytes: bounds.feed_forward_bytes / 2, ..bounds };
    let qkv = MemoryBounds { qkv_bytes: bounds.qkv_bytes / 2, ..bounds };
    let others = [
        ("another seed", EngineConfig { checkpoint: tiny(folder.path(), 4, Layout::Original), ..config.clone() }),
        ("another layout", EngineConfig { checkpoint: tiny(folder.path(), 3, Layout::Diffusers), ..config.clone() }),
        ("another partition", EngineConfig { partitions: vec![Partition::Ref2va], ..config.clone() }),
        ("another type", EngineConfig { dtype: ComputeDtype::Bf16, ..config.clone() }),
        ("another decode precision", EngineConfig { decode: DecodePrecision::F16, ..config.clone() }),
        ("other attention chunks", EngineConfig { memory: attention, ..config.clone() }),
        ("other feed-forward chunks", EngineConfig { memory: feed_forward, ..config.clone() }),
        ("other groups of heads", EngineConfig { memory: qkv, ..config.clone() }),
    ];
    let mut seen = vec![("the first", fingerprint(&config))];
    for (what, config) in others {
        let fingerprint = fingerprint(&config);
        if let Some((same, _)) = seen.iter().find(|(_, other)| *other == fingerprint) {
            panic!("{what} has the fingerprint of {same}");
        }
        seen.push((what, fingerprint));
    }
}

/// What a child was asked for, and its answer.
const WANTED: &str = "wanted";
const MADE: &str = "made";

#[test]
fn the_number_of_threads_changes_neither_the_fingerprint_nor_a_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let test = std::env::current_exe().expect("a test has a path");
    // The number is read once in the life of a process.
    let made = ["1", "2", "5"].map(|threads| {
        let folder = folder.path().join(threads);
        fs::create_dir(&folder).expect("a folder can be made");
        fs::write(folder.join(WANTED), "").expect("a file can be written");
        let child = Command::new(&test)
            .args(["--exact", "a_child_writes_what_it_makes", "--ignored"])
            .env("RAYON_NUM_THREADS", threads)
            .current_dir(&folder)
            .output()
            .expect("the test can be started again");
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        fs::read(folder.join(MADE)).expect("the child has answered")
    });
    assert!(made[0].len() > 64 + 22 * 64 * 32 * 3);
    assert!(made[0] == made[1] && made[0] == made[2], "the number of threads matters");
}

/// Keeps every byte that it is given.
struct Bytes(Vec<u8>);

impl FrameSink for Bytes {
    fn begin(&mut self, _: &MediaFormat) -> Result<(), SinkError> {
        Ok(())
    }

    fn offer(&mut self, chunk: MediaChunk, _: Duration) -> Result<Option<MediaChunk>, SinkError> {
        match chunk {
            MediaChunk::Samples(samples) => self.0.extend(samples.iter().flat_map(|sample| sample.to_le_bytes())),
            MediaChunk::Frames(frames) => self.0.extend(frames),
        }
        Ok(None)
    }
}

#[test]
#[ignore = "runs in a process and a folder of its own, for the comparison of thread counts"]
fn a_child_writes_what_it_makes() {
    let folder = Path::new(".");
    if !folder.join(WANTED).exists() {
        return;
    }
    let config = EngineConfig::new(tiny(folder, 3, Layout::Original), Partition::Fl2va);
    let mut engine = Engine::load(&config).expect("the tiny checkpoint loads");
    let request = VideoRequest {
        prompt: Some("a lighthouse in the rain".to_owned()),
        size: Some("64x32".to_owned()),
        seed: Some(11),
        ..VideoRequest::default()
    };
    let spec = request.resolve(engine.profile(), 0).expect("the request fits the tiny checkpoint");
    let mut sink = Bytes(engine.fingerprint().as_bytes().to_vec());
    let continuation = Continuation { resume: None, checkpoints: &mut NoCheckpoints };
    engine.generate(&spec, &Uninterrupted, &Unwatched, &mut sink, continuation, &mut NoTap).expect("it generates");
    fs::write(folder.join(MADE), sink.0).expect("the answer can be written");
}
