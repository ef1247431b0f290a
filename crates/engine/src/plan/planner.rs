//! Making plans.

use clapboard_h3::cost::BlockStack;
use clapboard_h3::packing::PackedLayout;
use clapboard_h3::{Canvas, FrameCount};

use super::budget::Budgets;
use super::conditions::PlannedConditions;
use super::holding::{Phase, PhasePlan};
use super::host::{HostPlan, host_plan};
use super::parts::Parts;
use super::phases::TransformerShape;
use super::pipeline::Pipeline;
use super::rates::Rates;
use super::refusal::{Alternatives, Refusal};
use super::request::{RequestShape, SequenceShape};
use super::residency::{ResidencyPlan, StepPlan};
use super::sizes::ModelSizes;
use crate::dit::DitShape;
use crate::engine::{ComputeDtype, MemoryBounds};
use crate::ops::DType;
use crate::video_vae::DecodePrecision;
use crate::weights::ResidentLayers;

/// What a GPU's driver and its libraries take of its memory beside what the engine takes: 646 MiB of an H200 with driver 580, cuBLASLt
/// 13.1 and cuDNN 9.14; another card, driver or library may take another share.
pub const DEVICE_OVERHEAD_BYTES: u64 = 672 << 20;

/// The most distinct timesteps of a step: video, sound, pictures that condition, sounds that condition.
const MOST_TIMESTEPS: usize = 4;

/// The types that networks compute in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precision {
    /// Text encoder and transformer.
    pub(super) dtype: DType,
    /// The video decoder.
    pub(super) decode: DType,
}

impl Precision {
    /// Takes an engine's types.
    pub fn new(dtype: ComputeDtype, decode: DecodePrecision) -> Self {
        Self { dtype: dtype.dtype(), decode: decode.compute() }
    }

    /// The release's own: BF16, and F16 for the video decoder.
    pub fn released() -> Self {
        Self::new(ComputeDtype::Bf16, DecodePrecision::F16)
    }
}

/// Makes plans for one checkpoint on one device.
#[derive(Debug, Clone)]
pub struct Planner {
    pub(super) sizes: ModelSizes,
    pub(super) precision: Precision,
    pub(super) memory: MemoryBounds,
    pub(super) rates: Rates,
    pub(super) overhead_bytes: u64,
    pub(super) parts: Parts,
}

/// What a request is, counted once.
struct Measured {
    shape: RequestShape,
    sequence: SequenceShape,
    conditions: PlannedConditions,
    transformer: TransformerShape,
}

impl Planner {
    /// Plans for a checkpoint whose networks compute in `precision` under `memory` bounds, at `rates`, on a device of which
    /// `overhead_bytes` are nobody's to use.
    pub fn new(
        sizes: ModelSizes,
        precision: Precision,
        memory: MemoryBounds,
        rates: Rates,
        overhead_bytes: u64,
    ) -> Self {
        let parts = Parts::of(&sizes, precision);
        Self { sizes, precision, memory, rates, overhead_bytes, parts }
    }

    /// Returns the sizes that are planned with.
    pub fn sizes(&self) -> &ModelSizes {
        &self.sizes
    }

    /// Returns the checkpoint's weights in parts.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Plans a request.
    ///
    /// Errors: [`Refusal`] with what is needed and what would fit.
    pub fn plan(&self, shape: &RequestShape, budgets: &Budgets) -> Result<ResidencyPlan, Refusal> {
        let measured = self.measure(shape)?;
        let resident = self.resident(&measured, budgets)?;
        let phases = self.phases(&measured, resident);
        let tightest = phases.iter().max_by_key(|phase| phase.peak_bytes()).expect("every request has phases");
        if tightest.peak_bytes() > budgets.hbm_bytes {
            return Err(self.refuse(&measured, budgets, tightest));
        }
        let host = self.host(&measured, budgets, resident, &phases)?;
        let step = self.step(&measured, resident, &host);
        let phases = self.timed(phases, &measured, &step, &host);
        let unstreamed_hbm_bytes = self.unstreamed_bytes(&phases);
        let sequence = measured.sequence;
        Ok(ResidencyPlan { sequence, budgets: *budgets, phases, step, host, unstreamed_hbm_bytes })
    }

    /// Returns the rows of the longest packed sequence that fits a device, with all blocks streaming; none where not even the
    /// decode of the largest canvas fits.
    ///
    /// It is what a worker can promise whatever the request: the rows beside `text_rows` count as video, which takes the most,
    /// and every kind of condition is there. A request may have a larger capacity class than this and still fit.
    pub fn largest_rows(&self, hbm_bytes: u64, text_rows: usize, forwards: usize) -> Option<usize> {
        let fits = |rows: usize| {
            let dit = DitShape {
                rows,
                text_rows,
                video_rows: rows - text_rows,
                audio_rows: 0,
                timesteps: MOST_TIMESTEPS,
                memory: self.memory,
            };
            let shape = TransformerShape { dit, forwards };
            // A shorter sequence may have larger groups of heads: it is the bound that every one keeps to.
            let whole = 3 * (rows * self.sizes.dit.inner_dim() * self.precision.dtype.size()) as u64;
            let qkv = whole.min(self.memory.qkv_bytes as u64);
            let phases = [self.prepare(&shape), self.denoise(&shape, self.fewest_resident())];
            phases.iter().all(|phase| phase.peak_bytes() - phase.bytes_of("qkv") + qkv <= hbm_bytes)
        };
        let canvas = self.largest_canvas()?;
        let frames = FrameCount::MIN;
        let decode = self.decode_video(canvas, frames).peak_bytes();
        if decode > hbm_bytes || !fits(text_rows) {
            return None;
        }
        let (mut most, mut beyond) = (text_rows, PackedLayout::MAX_ROWS + 1);
        while beyond - most > 1 {
            let middle = most + (beyond - most) / 2;
            if fits(middle) {
                most = middle;
            } else {
                beyond = middle;
            }
        }
        Some(most)
    }

    /// The canvas of the most pixels that the checkpoint's geometry derives from its limits.
    fn largest_canvas(&self) -> Option<Canvas> {
        let geometry = &self.sizes.settings.geometry;
        // No canvas is wider than 4:1.
        let ratio = (geometry.canvas_max_pixels as f64 / f64::from(geometry.canvas_short_edge).powi(2)).min(4.0);
        let width = (f64::from(geometry.canvas_short_edge) * ratio) as u64;
        geometry.explicit_canvas(width, u64::from(geometry.canvas_short_edge)).ok()
    }

    fn measure(&self, shape: &RequestShape) -> Result<Measured, Refusal> {
        let (sequence, conditions) = shape.measure(&self.sizes)?;
        let dit = DitShape {
            rows: sequence.rows,
            text_rows: sequence.text_rows,
            video_rows: sequence.video_rows,
            audio_rows: sequence.audio_rows,
            timesteps: sequence.timesteps,
            memory: self.memory,
        };
        let transformer = TransformerShape { dit, forwards: sequence.forwards };
        Ok(Measured { shape: *shape, sequence, conditions, transformer })
    }

    /// The fewest resident blocks: none, unless there is but one block.
    fn fewest_resident(&self) -> usize {
        if self.parts.dit_blocks.count == 1 { 1 } else { 0 }
    }

    /// How many blocks are resident; more than fit are found later.
    fn resident(&self, measured: &Measured, budgets: &Budgets) -> Result<usize, Refusal> {
        let blocks = self.parts.dit_blocks;
        match budgets.resident_layers {
            ResidentLayers::Fixed(asked) => {
                let resident = asked.min(blocks.count);
                if blocks.count - resident == 1 {
                    return Err(Refusal::OneStreamed { resident, blocks: blocks.count });
                }
                Ok(resident)
            }
            ResidentLayers::Auto => Ok(self.most_resident(&measured.transformer, budgets.hbm_bytes)),
        }
    }

    /// The most blocks that may be resident within a budget.
    pub(super) fn most_resident(&self, transformer: &TransformerShape, hbm_bytes: u64) -> usize {
        let blocks = self.parts.dit_blocks;
        let peak = |resident| self.denoise(transformer, resident).peak_bytes();
        if peak(blocks.count) <= hbm_bytes {
            return blocks.count;
        }
        let least = self.fewest_resident();
        let room = hbm_bytes.saturating_sub(peak(least)).checked_div(blocks.device_bytes).unwrap_or(0);
        // Blocks that stream are none or at least two.
        (least as u64 + room).min(blocks.count.saturating_sub(2) as u64).max(least as u64) as usize
    }

    fn phases(&self, measured: &Measured, resident: usize) -> Vec<PhasePlan> {
        let Measured { shape, sequence, conditions, transformer } = measured;
        let rows = sequence.text_rows;
        let mut phases: Vec<PhasePlan> = self.vision(conditions).into_iter().collect();
        phases.push(self.text(rows, conditions));
        phases.extend(self.encode_video(rows, conditions));
        phases.extend(self.encode_audio(rows, conditions));
        phases.push(self.prepare(transformer));
        phases.push(self.denoise(transformer, resident));
        phases.push(self.decode_audio(shape.num_frames));
        phases.push(self.decode_video(shape.canvas, shape.num_frames));
        phases
    }

    /// Counts what the host keeps, the masters of what streams every step first.
    fn host(
        &self,
        measured: &Measured,
        budgets: &Budgets,
        resident: usize,
        phases: &[PhasePlan],
    ) -> Result<HostPlan, Refusal> {
        let parts = &self.parts;
        let blocks = parts.dit_blocks;
        let streamed = super::Part { count: blocks.count - resident, ..blocks };
        let resident = super::Part { count: resident, ..blocks };
        let table = measured.sequence.forwards as u64 * self.table_bytes_per_step(&measured.transformer);
        let device = |name, part: super::Part| (name, part, part.device_bytes);
        let stored = |name, part: super::Part| (name, part, part.stored_bytes);
        let has = |phase| phases.iter().any(|planned| planned.phase == phase);
        let mut wishes = vec![
            device("streamed blocks", streamed),
            stored("transformer ends", parts.dit_ends),
            stored("transformer start", parts.dit_start),
            device("refiner blocks", parts.refiner_blocks),
            stored("video decoder ends", parts.video_decoder_ends),
            stored("video decoder blocks", parts.video_decoder_blocks),
            stored("audio decoder", parts.audio_decoder),
            device("resident blocks", resident),
        ];
        if has(Phase::EncodeVideo) {
            wishes.push(stored("video encoder", parts.video_encoder));
        }
        if has(Phase::EncodeAudio) {
            wishes.push(stored("audio encoder", parts.audio_encoder));
        }
        if has(Phase::Vision) {
            wishes.push(stored("vision ends", parts.vision_ends));
            wishes.push(device("vision blocks", parts.vision_blocks));
        }
        // Read once for a prompt, and once for a schedule.
        wishes.push(device("language layers", parts.text_layers));
        wishes.push(device("AdaLN projections", parts.adaln));
        host_plan(budgets.host_bytes, &[("AdaLN table", table)], &wishes)
            .map_err(|needed| Refusal::Host { needed, budget: budgets.host_bytes.unwrap_or(u64::MAX) })
    }

    fn step(&self, measured: &Measured, resident: usize, host: &HostPlan) -> StepPlan {
        let (blocks, rates) = (self.parts.dit_blocks, &self.rates);
        let streamed = blocks.count - resident;
        let block_bytes_per_step = streamed as u64 * blocks.device_bytes;
        let table_bytes_per_step = self.table_bytes_per_step(&measured.transformer);
        // Blocks are read ahead, so that those that are in memory give those that are not time to come.
        let read = rates.read_seconds(block_bytes_per_step) * host.share_from_file("streamed blocks");
        let copy_seconds = rates.copy_seconds(block_bytes_per_step + table_bytes_per_step).max(read);
        let compute_seconds = self.block_seconds(measured.sequence.rows) * blocks.count as f64;
        let played = Pipeline {
            resident,
            streamed,
            compute_seconds: compute_seconds / blocks.count as f64,
            copy_seconds: copy_seconds / streamed.max(1) as f64,
        }
        .play();
        StepPlan {
            resident_layers: resident,
            streamed_layers: streamed,
            block_bytes: blocks.device_bytes,
            block_bytes_per_step,
            table_bytes_per_step,
            table_bytes: measured.sequence.forwards as u64 * table_bytes_per_step,
            copy_seconds,
            compute_seconds,
            first_seconds: played.first,
            seconds: played.later,
        }
    }

    fn block_seconds(&self, rows: usize) -> f64 {
        let dit = &self.sizes.dit;
        let [hidden, inner, ffn] =
            [dit.hidden_size, dit.inner_dim(), dit.ffn_dim].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let cost = BlockStack { hidden, inner, ffn, layers: 1 }.forward(rows);
        self.rates.compute_seconds(cost.get(), self.rates.transformer_tflops, self.precision.dtype)
    }

    /// Predicts the phases whose time is known or only that of copies.
    fn timed(
        &self,
        mut phases: Vec<PhasePlan>,
        measured: &Measured,
        step: &StepPlan,
        host: &HostPlan,
    ) -> Vec<PhasePlan> {
        for phase in &mut phases {
            match phase.phase {
                Phase::Text => {
                    let layer = &self.parts.text_layers;
                    let config = &self.sizes.text.text;
                    let weights = layer.device_bytes as f64 / self.precision.dtype.size() as f64;
                    let rows = measured.sequence.text_rows as f64;
                    let flop = 2.0 * rows * weights + 2.0 * rows * rows * config.query_dim() as f64;
                    let tflop = flop * layer.count as f64 / 1e12;
                    let rate = self.rates.text_tflops;
                    let computed = self.rates.compute_seconds(tflop, rate, self.precision.dtype);
                    let read = self.rates.read_seconds(phase.moved_bytes) * host.share_from_file("language layers");
                    phase.seconds = Some(computed.max(read).max(self.rates.copy_seconds(phase.moved_bytes)));
                }
                Phase::Denoise => {
                    let resident = self.rates.copy_seconds(step.resident_layers as u64 * step.block_bytes);
                    let later = measured.sequence.forwards.saturating_sub(1) as f64 * step.seconds;
                    phase.seconds = Some(resident + step.first_seconds + later);
                }
                _ => {}
            }
        }
        phases
    }

    /// Every weight, and the most that any phase takes beside weights.
    fn unstreamed_bytes(&self, phases: &[PhasePlan]) -> u64 {
        let weights: u64 = self.parts.named().iter().map(|(_, part)| part.all_device_bytes()).sum();
        weights + phases.iter().map(PhasePlan::bytes_beside_weights).max().unwrap_or(0)
    }

    /// Says why a phase does not fit, and what would.
    fn refuse(&self, measured: &Measured, budgets: &Budgets, tight: &PhasePlan) -> Refusal {
        let shape = &measured.shape;
        let budget = budgets.hbm_bytes;
        let fits = |shape: RequestShape| self.least(&shape).is_some_and(|least| least <= budget);
        let auto = self.most_resident(&measured.transformer, budget);
        let least = self.least(shape).unwrap_or(u64::MAX);
        let too_many = least <= budget;
        let alternatives = Alternatives {
            least_hbm_bytes: least,
            resident_layers: too_many.then_some(auto),
            num_frames: fewer_frames(shape.num_frames)
                .take_while(|frames| frames.seconds() >= self.sizes.settings.geometry.min_duration_seconds)
                .find(|&num_frames| fits(RequestShape { num_frames, ..*shape })),
            canvas: smaller_canvases(shape.canvas).find(|&canvas| fits(RequestShape { canvas, ..*shape })),
        };
        tight.refused(budget, alternatives)
    }

    /// The least memory that a request fits in: with every block streaming.
    fn least(&self, shape: &RequestShape) -> Option<u64> {
        let measured = self.measure(shape).ok()?;
        self.phases(&measured, self.fewest_resident()).iter().map(PhasePlan::peak_bytes).max()
    }
}

/// Shorter films, the longest first.
fn fewer_frames(frames: FrameCount) -> impl Iterator<Item = FrameCount> {
    (FrameCount::MIN.get()..frames.get()).rev().filter_map(|fewer| FrameCount::new(fewer).ok())
}

/// Smaller canvases of about the same ratio, the largest first.
fn smaller_canvases(canvas: Canvas) -> impl Iterator<Item = Canvas> {
    let units = canvas.height() / Canvas::MULTIPLE;
    (1..units).rev().filter_map(move |unit| {
        let height = unit * Canvas::MULTIPLE;
        let width = f64::from(canvas.width()) * f64::from(height) / f64::from(canvas.height());
        let width = (width / f64::from(Canvas::MULTIPLE)).round() as u32 * Canvas::MULTIPLE;
        Canvas::new(width, height).ok()
    })
}
