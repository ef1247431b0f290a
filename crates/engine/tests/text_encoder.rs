//! What the text encoder does besides matching the golden tensors: BF16, chunks, causality, ranks, stops, refusals.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clapboard_engine::checkpoint::{self, Checkpoint, ComponentId, Layout, RawTensor, StoredDtype, map_file, tiny};
use clapboard_engine::ops::cpu::Cpu;
use clapboard_engine::ops::{DType, OpError, Ops};
use clapboard_engine::parallel::{Alone, Rank};
use clapboard_engine::text::{Presentation, TextEncoder, Tokenizer};
use clapboard_engine::vision::VisionEmbeds;
use clapboard_engine::{
    Command, Control, LoadError, Loading, NoTap, Placement, Progress, ProgressEvent, Run, RunError, Stop, Tap,
    Uninterrupted, Unwatched,
};
use tempfile::TempDir;

const LAYERS: usize = 50;

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// The tiny checkpoint, whose weights are those of the golden files.
struct Tiny {
    folder: TempDir,
    checkpoint: Checkpoint,
    cpu: Cpu,
}

fn resident() -> Loading<'static> {
    Loading::unwatched(Placement::Resident)
}

impl Tiny {
    fn write() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("checkpoint");
        tiny::write_from_golden(&golden_folder(), Layout::Diffusers, &root).unwrap();
        Self { checkpoint: Checkpoint::open(&root).unwrap(), folder, cpu: Cpu::new(1 << 20) }
    }

    fn tokenizer(&self) -> Tokenizer {
        let path = self.checkpoint.tokenizer_path().unwrap();
        Tokenizer::load(&path, &self.checkpoint.text_encoder().text).unwrap()
    }

    fn encoder(&self, dtype: DType, feed_forward_bytes: usize) -> Result<TextEncoder<Cpu>, LoadError> {
        let component = Arc::new(self.checkpoint.component(ComponentId::TextEncoder)?);
        let config = self.checkpoint.text_encoder().text.clone();
        TextEncoder::load(&self.cpu, &component, config, dtype, feed_forward_bytes, resident(), Box::new(Alone))
    }

    /// Encodes `presentation` and gives every tensor that the tap saw, and the embeddings themselves.
    fn encode(&self, encoder: &TextEncoder<Cpu>, presentation: &Presentation) -> Seen {
        let mut seen = Seen::default();
        let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut seen };
        let embeds = encoder.encode(&self.cpu, presentation, &VisionEmbeds::none(), &mut run).unwrap();
        assert_eq!(embeds.shape(), [presentation.ids().len(), 40]);
        assert_eq!(seen.0["prompt_embeds"], self.cpu.read(embeds.view()).unwrap());
        seen
    }
}

/// Keeps all that it is shown.
#[derive(Default)]
struct Seen(BTreeMap<String, Vec<f32>>);

impl Tap for Seen {
    fn see(
        &mut self,
        name: &str,
        shape: &[usize],
        read: &dyn Fn() -> Result<Vec<f32>, OpError>,
    ) -> Result<(), OpError> {
        let values = read()?;
        assert_eq!(values.len(), shape.iter().product::<usize>(), "{name}");
        self.0.insert(name.to_owned(), values);
        Ok(())
    }
}

/// The tensors of one golden case, by name.
struct Golden(Vec<RawTensor>);

impl Golden {
    fn open(case: &str) -> Self {
        Self(map_file(&golden_folder().join(format!("{case}.safetensors"))).unwrap())
    }

    fn tensor(&self, name: &str) -> Option<&RawTensor> {
        self.0.iter().find(|tensor| tensor.name() == name)
    }

    fn floats(&self, name: &str) -> Option<Vec<f32>> {
        let mut values = Vec::new();
        self.tensor(name)?.append_f32(&mut values).unwrap();
        Some(values)
    }

    fn input_ids(&self) -> Vec<u32> {
        let ids = self.tensor("te.input_ids").unwrap();
        assert_eq!(ids.dtype(), StoredDtype::I64);
        let wide = ids.bytes().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()));
        wide.map(|id| u32::try_from(id).unwrap()).collect()
    }
}

fn prompt(case: &str) -> String {
    let requests = std::fs::read(golden_folder().join("requests.json")).unwrap();
    let requests: serde_json::Value = serde_json::from_slice(&requests).unwrap();
    let case = requests["cases"].as_array().unwrap().iter().find(|entry| entry["name"] == case).unwrap();
    case["prompt"].as_str().unwrap().to_owned()
}

/// `‖actual − expected‖ / ‖expected‖`.
fn relative_rms(actual: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let difference = square(&mut actual.iter().zip(expected).map(|(a, e)| f64::from(*a) - f64::from(*e)));
    (difference / square(&mut expected.iter().map(|e| f64::from(*e)))).sqrt()
}

/// Encodes the case's prompt and compares every stage that its golden file holds; `tolerance` is asked for each name.
fn compare(case: &str, dtype: DType, tolerance: impl Fn(&str) -> f64) {
    let (tiny, golden) = (Tiny::write(), Golden::open(case));
    let presentation = Presentation::t2va(&tiny.tokenizer(), &prompt(case)).unwrap();
    assert_eq!(presentation.ids(), golden.input_ids(), "{case}: te.input_ids");
    let seen = tiny.encode(&tiny.encoder(dtype, 1 << 20).unwrap(), &presentation);
    assert_eq!(seen.0.len(), LAYERS + 2);
    let mut compared = 0;
    for (name, actual) in &seen.0 {
        let Some(expected) = golden.floats(name) else { continue };
        let error = relative_rms(actual, &expected);
        let tolerance = tolerance(name);
        assert!(error <= tolerance, "{case}: {name} is off by {error:e}, allowed {tolerance:e}");
        compared += 1;
    }
    let hidden = if golden.tensor("te.hidden_after_layer_0").is_some() { 5 } else { 0 };
    assert_eq!(compared, 2 + hidden, "{case}: te.inputs_embeds, prompt_embeds and the layers that were kept");
}

#[test]
fn bf16_stays_close_to_the_f32_golden_run() {
    compare("t2va", DType::Bf16, |name| if name == "te.inputs_embeds" { 0.0 } else { 4e-2 });
}

#[test]
fn feed_forward_chunks_do_not_change_the_embeddings() {
    let tiny = Tiny::write();
    let presentation = Presentation::t2va(&tiny.tokenizer(), &prompt("t2va")).unwrap();
    let whole = tiny.encode(&tiny.encoder(DType::F32, usize::MAX).unwrap(), &presentation);
    // 57 rows of 3 · 64 values: 5 rows a chunk leave a ragged last one.
    let chunked_encoder = tiny.encoder(DType::F32, 5 * 3 * 64 * 4).unwrap();
    let chunk = chunked_encoder.plan(57).buffers().iter().find(|buffer| buffer.name == "gated").unwrap().shape;
    assert_eq!(chunk.as_slice(), [5, 64]);
    let chunked = tiny.encode(&chunked_encoder, &presentation);
    let error = relative_rms(&chunked.0["prompt_embeds"], &whole.0["prompt_embeds"]);
    assert!(error <= 1e-6, "off by {error:e}");
}

#[test]
fn a_later_token_never_changes_an_earlier_row() {
    let tiny = Tiny::write();
    let encoder = tiny.encoder(DType::F32, usize::MAX).unwrap();
    let encode = |prompt: &str| {
        let presentation = Presentation::t2va(&tiny.tokenizer(), prompt).unwrap();
        tiny.encode(&encoder, &presentation).0.remove("prompt_embeds").unwrap()
    };
    let (short, long) = (encode("123"), encode("12345"));
    assert_eq!((short.len(), long.len()), (3 * 40, 5 * 40));
    let error = relative_rms(&long[..3 * 40], &short);
    assert!(error <= 1e-5, "off by {error:e}");
}

/// Counts the sums of partial products.
struct CountingRank(&'static AtomicUsize);

impl Rank<Cpu> for CountingRank {
    fn sum_partial(
        &self,
        _: &Cpu,
        partial: clapboard_engine::ops::ViewMut<'_, <Cpu as Ops>::Buffer>,
    ) -> Result<(), OpError> {
        assert_eq!(partial.shape(), [2, 40]);
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn partial_products_are_summed_after_attention_and_after_feed_forward() {
    static SUMS: AtomicUsize = AtomicUsize::new(0);
    let tiny = Tiny::write();
    let component = Arc::new(tiny.checkpoint.component(ComponentId::TextEncoder).unwrap());
    let config = tiny.checkpoint.text_encoder().text.clone();
    let rank = Box::new(CountingRank(&SUMS));
    let encoder = TextEncoder::load(&tiny.cpu, &component, config, DType::F32, 1, resident(), rank).unwrap();
    tiny.encode(&encoder, &Presentation::t2va(&tiny.tokenizer(), "12").unwrap());
    assert_eq!(SUMS.load(Ordering::Relaxed), 2 * LAYERS);
}

/// Cancels at its `last`-th look.
struct CancelAfter {
    looks: AtomicUsize,
    last: usize,
}

impl Control for CancelAfter {
    fn command(&self) -> Command {
        if self.looks.fetch_add(1, Ordering::Relaxed) < self.last { Command::Run } else { Command::Cancel }
    }
}

/// Counts the parts that were reported.
#[derive(Default)]
struct Parts(AtomicUsize);

impl Progress for Parts {
    fn report(&self, event: ProgressEvent) {
        let done = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(event, ProgressEvent::Part { done, total: LAYERS });
    }
}

#[test]
fn a_cancelled_encoding_stops_before_the_next_layer() {
    let tiny = Tiny::write();
    let encoder = tiny.encoder(DType::F32, usize::MAX).unwrap();
    let presentation = Presentation::t2va(&tiny.tokenizer(), "a fox").unwrap();
    let (control, parts) = (CancelAfter { looks: AtomicUsize::new(0), last: 3 }, Parts::default());
    let mut run = Run { control: &control, progress: &parts, tap: &mut NoTap };
    let stopped = encoder.encode(&tiny.cpu, &presentation, &VisionEmbeds::none(), &mut run).unwrap_err();
    assert!(matches!(stopped, RunError::Stopped(Stop::Cancelled)), "{stopped}");
    assert_eq!(parts.0.load(Ordering::Relaxed), 3);
}

#[test]
fn every_layer_is_reported_and_the_last_two_are_never_read() {
    let tiny = Tiny::write();
    let encoder = tiny.encoder(DType::F32, usize::MAX).unwrap();
    assert_eq!(tiny.checkpoint.text_encoder().text.num_layers, LAYERS + 2);
    let presentation = Presentation::t2va(&tiny.tokenizer(), "a fox").unwrap();
    let parts = Parts::default();
    let mut run = Run { control: &Uninterrupted, progress: &parts, tap: &mut NoTap };
    encoder.encode(&tiny.cpu, &presentation, &VisionEmbeds::none(), &mut run).unwrap();
    assert_eq!(parts.0.load(Ordering::Relaxed), LAYERS);
}

#[test]
fn weights_that_contradict_the_config_are_named() {
    let tiny = Tiny::write();
    let component = Arc::new(tiny.checkpoint.component(ComponentId::TextEncoder).unwrap());
    let load = |change: &dyn Fn(&mut checkpoint::TextConfig)| {
        let mut config = tiny.checkpoint.text_encoder().text.clone();
        change(&mut config);
        let loaded = TextEncoder::load(&tiny.cpu, &component, config, DType::F32, 1 << 20, resident(), Box::new(Alone));
        loaded.map(|_| ()).unwrap_err().to_string()
    };
    let vocabulary = load(&|config| config.vocab_size = 321);
    assert!(vocabulary.contains("model.language_model.embed_tokens.weight"), "{vocabulary}");
    assert!(vocabulary.contains("[320, 40], expected [321, 40]"), "{vocabulary}");
    let heads = load(&|config| config.num_kv_heads = 4);
    assert!(heads.contains("model.language_model.layers.0.self_attn.k_proj.weight"), "{heads}");
    let inner = load(&|config| config.intermediate_size = 65);
    assert!(inner.contains("layers.0.mlp.gate_proj.weight"), "{inner}");
}

#[test]
fn a_missing_tensor_is_named() {
    let tiny = Tiny::write();
    let folder = tiny.folder.path().join("checkpoint/text_encoder");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            // Another name of equal length keeps the file valid.
            let bytes = std::fs::read(&path).unwrap();
            let from = b"model.language_model.layers.49.mlp.down_proj.weight";
            let to = b"model.language_model.layers.49.mlp.lost_proj.weight";
            let renamed = match bytes.windows(from.len()).position(|window| window == from) {
                Some(at) => [&bytes[..at], to, &bytes[at + from.len()..]].concat(),
                None => bytes,
            };
            std::fs::write(&path, renamed).unwrap();
        }
    }
    let refused = tiny.encoder(DType::F32, 1 << 20).map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, LoadError::Checkpoint(checkpoint::Error::NoTensor { tensor, .. })
            if tensor == "model.language_model.layers.49.mlp.down_proj.weight"),
        "{refused}"
    );
}
