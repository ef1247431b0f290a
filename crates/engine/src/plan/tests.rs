use std::path::Path;
use std::sync::Arc;

use clapboard_h3::packing::{Conditions, PackedLayout};
use clapboard_h3::{Canvas, FrameCount, Partition, ReferenceCounts, Task, VideoRequest};
use proptest::prelude::*;

use super::*;
use crate::bench::Metered;
use crate::checkpoint::tiny::write_tiny;
use crate::checkpoint::{Checkpoint, ComponentId, Inventory, Layout};
use crate::components::Components;
use crate::conditions::EncodedConditions;
use crate::control::Uninterrupted;
use crate::denoise::{FirstRows, denoise, row_shapes};
use crate::dit::{AdalnCache, Dit, DitOptions};
use crate::engine::{ComputeDtype, MemoryBounds};
use crate::load::Loading;
use crate::ops::cpu::Cpu;
use crate::parallel::Alone;
use crate::progress::Unwatched;
use crate::resume::{Identity, Keeper, NoCheckpoints};
use crate::run::Run;
use crate::tap::NoTap;
use crate::text::{Presenter, TextEncoder};
use crate::video_vae::{DecodePrecision, FrameValues, VideoDecoder, VideoEncoder, VideoFrames, VideoLatents};
use crate::vision::VisionEmbeds;
use crate::weights::Placement;

const GIB: u64 = 1 << 30;

fn released() -> Planner {
    planner(ModelSizes::released(Partition::Fl2va))
}

fn planner(sizes: ModelSizes) -> Planner {
    Planner::new(sizes, Precision::released(), MemoryBounds::default(), Rates::H200, DEVICE_OVERHEAD_BYTES)
}

fn shape(width: u32, height: u32, frames: u32) -> RequestShape {
    RequestShape {
        task: Task::T2va,
        canvas: Canvas::new(width, height).unwrap(),
        num_frames: FrameCount::snap_up(frames),
        prompt_rows: 100,
        references: ReferenceCounts::default(),
        points: 50,
    }
}

fn budgets(hbm_bytes: u64) -> Budgets {
    Budgets { hbm_bytes, host_bytes: None, resident_layers: ResidentLayers::Auto }
}

#[test]
fn released_parts_have_the_published_sizes() {
    let parts = *released().parts();
    assert_eq!(parts.dit_blocks.count, 50);
    assert_eq!(parts.dit_blocks.device_bytes, 770_725_376);
    assert_eq!(parts.dit_blocks.device_bytes + parts.adaln.device_bytes, 1_291_143_680);
    assert_eq!(parts.adaln.all_device_bytes(), 26_020_915_200);
    // Nothing has to be filled up in a slot.
    assert_eq!(parts.dit_blocks.slot_bytes, parts.dit_blocks.device_bytes);
    assert_eq!(parts.refiner_blocks.device_bytes, parts.dit_blocks.device_bytes);
    let dit = [parts.dit_blocks, parts.adaln, parts.dit_ends, parts.refiner_blocks, parts.dit_start];
    // The published number counts the stored rotary frequencies, which are never read.
    let total: u64 = dit.iter().map(Part::all_stored_bytes).sum();
    assert!((66_280_430_080 - total) <= 64, "{total}");
    // A language layer is larger than a block of the transformer.
    assert!(parts.text_layers.slot_bytes > parts.dit_blocks.slot_bytes);
    assert_eq!(parts.text_layers.device_bytes, 975_196_672);
    let decoder = parts.video_decoder_blocks.all_device_bytes() + parts.video_decoder_ends.all_device_bytes();
    assert!((4_840_000_000..4_860_000_000).contains(&decoder), "{decoder}");
    assert_eq!(parts.video_encoder.device_bytes, 4 * 180_335_536 + 4 * (48 * 48 + 48));
}

#[test]
fn every_tensor_that_is_read_is_in_one_part() {
    let sizes = ModelSizes::released(Partition::Fl2va);
    let inventories = [
        Inventory::dit(ComponentId::Dit(Partition::Fl2va), &sizes.dit),
        Inventory::text_encoder(&sizes.text),
        Inventory::video_vae(&sizes.video_vae),
        Inventory::audio_vae(&sizes.audio_vae),
    ];
    let listed: u64 = inventories.iter().map(|inventory| inventory.bytes(|_| true)).sum();
    let parts: u64 = planner(sizes).parts().named().iter().map(|(_, part)| part.all_stored_bytes()).sum();
    assert_eq!(parts, listed);
}

#[test]
fn a_released_request_has_the_rows_of_the_fact_sheet() {
    for (width, height, frames, rows) in
        [(1344, 768, 124, 37_810), (1344, 768, 209, 63_292), (1344, 768, 345, 104_066), (960, 544, 124, 19_384)]
    {
        let plan = released().plan(&shape(width, height, frames), &budgets(80 * GIB)).unwrap();
        assert_eq!(plan.sequence.rows, rows, "{width}x{height}, {frames} frames");
        assert_eq!((plan.sequence.timesteps, plan.sequence.forwards), (2, 49));
    }
}

#[test]
fn conditions_add_their_rows_and_their_timesteps() {
    let keyframes = ReferenceCounts { images: 2, ..ReferenceCounts::default() };
    let fl2va = RequestShape { task: Task::Fl2va, references: keyframes, ..shape(1344, 768, 124) };
    let plan = released().plan(&fl2va, &budgets(24 * GIB)).unwrap();
    // Two frames of 1,008 patches, as many tokens, and 8 to name each.
    assert_eq!(plan.sequence.rows, 37_810 + 2 * (1_008 + 1_008 + 8));
    assert_eq!(plan.sequence.timesteps, 3);
    assert!(plan.phase(Phase::Vision).is_some() && plan.phase(Phase::EncodeVideo).is_some());
    assert!(plan.phase(Phase::EncodeAudio).is_none());

    let references = ReferenceCounts { images: 1, videos: 1, audios: 1 };
    let ref2va = RequestShape { task: Task::Ref2va, references, ..shape(1344, 768, 124) };
    let planner = planner(ModelSizes::released(Partition::Ref2va));
    let plan = planner.plan(&ref2va, &budgets(24 * GIB)).unwrap();
    assert_eq!(plan.sequence.timesteps, 4);
    assert_eq!(plan.sequence.video_rows, 2 * 37 * 1_008 + 64 * 64);
    assert_eq!(plan.sequence.audio_rows, 3 * 2 * 207);
    assert!(plan.phase(Phase::EncodeAudio).is_some());
    let refused = released().plan(&ref2va, &budgets(24 * GIB)).unwrap_err();
    assert_eq!(refused.to_string(), "task ref2va needs partition ref2va, planned is fl2va");
    let without = RequestShape { references: ReferenceCounts::default(), ..ref2va };
    assert!(planner.plan(&without, &budgets(24 * GIB)).is_err());
}

#[test]
fn five_seconds_of_the_released_canvas_fit_in_eight_gib() {
    let plan = released().plan(&shape(1344, 768, 124), &budgets(8 * GIB)).unwrap();
    assert!(plan.peak_bytes() <= 8 * GIB);
    let denoise = plan.phase(Phase::Denoise).unwrap();
    assert_eq!(denoise.bytes_of("slots"), 2 * 770_725_376);
    // Half of the heads at a time.
    assert_eq!(denoise.bytes_of("qkv"), 37_810 * 3 * 28 * 128 * 2);
    assert_eq!(plan.phase(Phase::Text).unwrap().bytes_of("slots"), 2 * 975_196_672);
    assert_eq!(plan.step.table_bytes_per_step, 2 * 50 * 18 * 5376 * 2);
    assert_eq!(plan.step.block_bytes_per_step, plan.step.streamed_layers as u64 * 770_725_376);
    // Copies hide.
    assert!(plan.step.seconds < 1.01 * plan.step.compute_seconds, "{:?}", plan.step);
    // The published table: 3,507 TFLOP a step.
    assert!((plan.step.compute_seconds * 589.0 - 3_507.0).abs() < 1.0);
}

#[test]
fn fifteen_seconds_of_the_released_canvas_fit_in_eight_gib() {
    let plan = released().plan(&shape(1344, 768, 345), &budgets(8 * GIB)).unwrap();
    assert!(plan.peak_bytes() <= 8 * GIB);
    let denoise = plan.phase(Phase::Denoise).unwrap();
    assert_eq!(denoise.bytes_of("qkv"), 104_066 * 3 * 8 * 128 * 2);
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let planner = released();
    let long = shape(1344, 768, 345);
    let Refusal::Device { phase, needed, budget, largest, alternatives } =
        planner.plan(&long, &budgets(7 * GIB)).unwrap_err()
    else {
        panic!("it was refused for another reason");
    };
    assert!(matches!(phase, Phase::Prepare | Phase::Denoise), "{phase:?}");
    assert_eq!((budget, needed), (7 * GIB, alternatives.least_hbm_bytes));
    assert_eq!(largest[0].0, "slots");
    let fits = |shape: RequestShape, hbm| planner.plan(&shape, &budgets(hbm)).is_ok();
    assert!(fits(long, alternatives.least_hbm_bytes) && !fits(long, alternatives.least_hbm_bytes - 1));
    let num_frames = alternatives.num_frames.unwrap();
    assert!(fits(RequestShape { num_frames, ..long }, 7 * GIB));
    let more = FrameCount::snap_up(num_frames.get() + 1);
    assert!(!fits(RequestShape { num_frames: more, ..long }, 7 * GIB));
    let canvas = alternatives.canvas.unwrap();
    assert!(canvas.pixels() < long.canvas.pixels() && fits(RequestShape { canvas, ..long }, 7 * GIB));
}

#[test]
fn too_many_residents_are_refused_with_the_number_that_fits() {
    let planner = released();
    let request = shape(1344, 768, 124);
    let fixed = |layers| Budgets { resident_layers: ResidentLayers::Fixed(layers), ..budgets(16 * GIB) };
    let auto = planner.plan(&request, &budgets(16 * GIB)).unwrap().step.resident_layers;
    let Refusal::Device { alternatives, .. } = planner.plan(&request, &fixed(auto + 1)).unwrap_err() else {
        panic!("it was refused for another reason");
    };
    assert_eq!(alternatives.resident_layers, Some(auto));
    assert_eq!(planner.plan(&request, &fixed(auto)).unwrap().step.resident_layers, auto);
    let refused = planner.plan(&request, &fixed(49)).unwrap_err();
    assert_eq!(refused, Refusal::OneStreamed { resident: 49, blocks: 50 });
}

#[test]
fn a_card_for_everything_streams_nothing_and_needs_no_slots() {
    let plan = released().plan(&shape(1344, 768, 124), &budgets(80 * GIB)).unwrap();
    assert_eq!((plan.step.resident_layers, plan.step.streamed_layers), (50, 0));
    let denoise = plan.phase(Phase::Denoise).unwrap();
    assert_eq!(denoise.bytes_of("slots"), 0);
    assert_eq!(plan.dit_block(49), Place::Resident);
    assert_eq!(plan.step.block_bytes_per_step, 0);
}

#[test]
fn the_host_keeps_what_streams_first_and_reads_the_rest() {
    let planner = released();
    let request = shape(1344, 768, 124);
    let plan = |host| {
        planner.plan(
            &request,
            &Budgets { host_bytes: Some(host), resident_layers: ResidentLayers::Fixed(0), ..budgets(8 * GIB) },
        )
    };
    let named = |plan: &ResidencyPlan, name| {
        let found = plan.host.holdings.iter().find(|holding| holding.name == name).unwrap();
        (found.in_memory, found.from_file)
    };
    let usual = plan(64 * GIB).unwrap();
    assert!(usual.host.bytes() <= 64 * GIB);
    assert_eq!(named(&usual, "streamed blocks"), (50, 0));
    assert_eq!(named(&usual, "video decoder blocks"), (36, 0));
    assert!(named(&usual, "language layers").1 > 25);
    let little = plan(16 * GIB).unwrap();
    assert!(little.host.bytes() <= 16 * GIB);
    let (in_memory, from_file) = named(&little, "streamed blocks");
    assert!(in_memory + from_file == 50 && from_file > 25);
    // What is read in every step bounds it.
    assert!(little.step.seconds >= from_file as f64 * 770_725_376.0 / 2e9 - 1e-6);
    let Refusal::Host { needed, budget } = plan(GIB).unwrap_err() else { panic!("it was refused otherwise") };
    assert!(budget == GIB && plan(needed).is_ok() && plan(needed - 1).is_err());
}

#[test]
fn the_longest_sequence_is_where_a_budget_ends() {
    let planner = released();
    let rows = planner.largest_rows(8 * GIB, 100, 49).unwrap();
    assert!((80_000..120_000).contains(&rows), "{rows}");
    assert!(planner.largest_rows(16 * GIB, 100, 49).unwrap() > 2 * rows);
    assert_eq!(planner.largest_rows(GIB, 100, 49), None);
    // Whatever is shorter fits too, however its heads are grouped.
    for frames in (5..=345).step_by(17) {
        let shorter = shape(1344, 768, frames);
        let plan = planner.plan(&shorter, &budgets(80 * GIB)).unwrap();
        if plan.sequence.rows <= rows {
            assert!(planner.plan(&shorter, &budgets(8 * GIB)).is_ok(), "{frames} frames");
        }
    }
    let longest = shape(1344, 768, 345);
    let needed = planner.plan(&longest, &budgets(80 * GIB)).unwrap().sequence.rows;
    assert!(planner.largest_rows(9 * GIB, 100, 49).unwrap() >= needed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_plan_keeps_to_its_budget_and_adds_up(
        hbm in 4u64 << 30..80 << 30, more in 0u64..8 << 30, frames in 22u32..345, units in 2u32..24,
    ) {
        let planner = released();
        let request = shape(units * 32, units * 32, frames);
        match planner.plan(&request, &budgets(hbm)) {
            Ok(plan) => {
                prop_assert!(plan.peak_bytes() <= hbm);
                for phase in &plan.phases {
                    let sum: u64 = phase.holdings.iter().map(|holding| holding.bytes).sum();
                    prop_assert_eq!(phase.peak_bytes(), sum);
                }
                let StepPlan { resident_layers, streamed_layers, .. } = plan.step;
                prop_assert_eq!(resident_layers + streamed_layers, 50);
                prop_assert_ne!(streamed_layers, 1);
                let moved = streamed_layers as u64 * plan.step.block_bytes;
                prop_assert_eq!(plan.step.block_bytes_per_step, moved);
                let steps = plan.sequence.forwards as u64 * (moved + plan.step.table_bytes_per_step);
                let ends = planner.parts().dit_ends.device_bytes;
                let residents = resident_layers as u64 * plan.step.block_bytes;
                prop_assert_eq!(plan.phase(Phase::Denoise).unwrap().moved_bytes, steps + residents + ends);
                prop_assert!(plan.step.seconds >= plan.step.compute_seconds - 1e-9);
                let larger = planner.plan(&request, &budgets(hbm + more)).unwrap();
                prop_assert!(larger.step.resident_layers >= resident_layers);
                // One more would not have fitted, or would have left one to stream.
                if streamed_layers > 2 {
                    let over = plan.phase(Phase::Denoise).unwrap().peak_bytes() + plan.step.block_bytes;
                    prop_assert!(over > hbm);
                }
            }
            Err(Refusal::Device { needed, budget, alternatives, .. }) => {
                prop_assert!(needed > budget && alternatives.least_hbm_bytes > hbm);
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}

/// What a phase holds in buffers, those with the names of `except` apart.
fn buffers(plan: &ResidencyPlan, phase: Phase, except: &[&str]) -> u64 {
    let holdings = plan.phase(phase).unwrap().holdings.iter();
    let buffers = holdings.filter(|holding| holding.kind == HoldingKind::Buffer && !except.contains(&holding.name));
    buffers.map(|holding| holding.bytes).sum()
}

/// Bytes of the buffers that `work` makes.
fn made(ops: &Metered<Cpu>, mut work: impl FnMut()) -> u64 {
    let counted = ops.counted(&mut || {
        work();
        Ok(())
    });
    counted.unwrap().made_bytes
}

#[test]
fn the_engine_makes_what_the_plan_holds() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tiny");
    write_tiny(3, Layout::Original, &root).unwrap();
    for (dtype, decode) in [(ComputeDtype::F32, DecodePrecision::F32), (ComputeDtype::Bf16, DecodePrecision::F16)] {
        compare(&root, dtype, decode);
    }
}

fn compare(root: &Path, dtype: ComputeDtype, decode: DecodePrecision) {
    let partition = Partition::Fl2va;
    let checkpoint = Checkpoint::open(root).unwrap();
    let components = Components::map(&checkpoint, partition).unwrap();
    let sizes = ModelSizes::read(root, partition).unwrap();
    let memory = MemoryBounds { feed_forward_bytes: 1 << 14, ..MemoryBounds::default() };
    let planner =
        Planner::new(sizes.clone(), Precision::new(dtype, decode), memory, Rates::H200, DEVICE_OVERHEAD_BYTES);
    let ops = Metered::new(Cpu::new(memory.attention_bytes));
    let mut tap = NoTap;
    let mut run = Run { control: &Uninterrupted, progress: &Unwatched, tap: &mut tap };

    let request = VideoRequest {
        prompt: Some("a lighthouse in the rain".to_owned()),
        size: Some("96x64".to_owned()),
        seed: Some(11),
        ..VideoRequest::default()
    };
    let spec = request.resolve(&checkpoint.profile(&[partition]).unwrap(), 0).unwrap();
    let presented = Presenter::load(&checkpoint).unwrap().present(&spec.prompt, &[]).unwrap();
    let shape = RequestShape {
        task: spec.task,
        canvas: spec.canvas,
        num_frames: spec.num_frames,
        prompt_rows: presented.presentation.ids().len(),
        references: ReferenceCounts::default(),
        points: spec.video_sigmas.points() as u32,
    };
    let plan = planner.plan(&shape, &budgets(80 * GIB)).unwrap();

    let (bytes, alone) = (memory.feed_forward_bytes, || Box::new(Alone));
    let resident = Loading::unwatched(Placement::Resident);
    let text = sizes.text.text.clone();
    let encoder =
        TextEncoder::load(&ops, &components.text_encoder, text, dtype.dtype(), bytes, resident, alone()).unwrap();
    let mut prompt_embeds = None;
    let taken = made(&ops, || {
        let vision = VisionEmbeds::none();
        prompt_embeds = Some(encoder.encode(&ops, &presented.presentation, &vision, &mut run).unwrap());
    });
    assert_eq!(taken, buffers(&plan, Phase::Text, &[]), "text in {dtype:?}");

    let options = DitOptions { dtype: dtype.dtype(), memory, modulations: Arc::new(AdalnCache::new(0)) };
    let dit = Dit::load(&ops, &components.dit, sizes.dit.clone(), options, resident, alone()).unwrap();
    let tags = presented.presentation.tags();
    let layout = PackedLayout::new(tags, Conditions::None, spec.target()).unwrap();
    assert_eq!(layout.rows(), plan.sequence.rows);
    let (video, audio) = (spec.video_sigmas.timesteps(), spec.audio_sigmas.timesteps());
    let prompt_embeds = prompt_embeds.unwrap();
    let mut begun = None;
    let taken = made(&ops, || {
        begun = Some(dit.begin(&ops, &layout, prompt_embeds.view(), &video, &audio, &mut run).unwrap());
    });
    assert_eq!(taken, buffers(&plan, Phase::Prepare, &["prompt_embeds"]), "prepare in {dtype:?}");

    let mut checkpoints = NoCheckpoints;
    let shapes = row_shapes(&spec, dit.config());
    let mut keeper = Keeper::new(Identity::of(&spec, &[], "none"), shapes, None, &mut checkpoints);
    let mut request = begun;
    let taken = made(&ops, || {
        let first = FirstRows::draw(&spec, dit.config(), EncodedConditions::default(), None, &mut run).unwrap();
        let request = request.take().unwrap();
        denoise(&ops, &dit, &spec, request, first, &mut keeper, &mut run).unwrap();
    });
    let state = ["video_rows", "audio_rows"].map(|name| plan.phase(Phase::Denoise).unwrap().bytes_of(name));
    assert_eq!(taken, state.iter().sum::<u64>(), "denoise in {dtype:?}");
    // What the request brought along from its beginning.
    let [refiner, embedding] = [
        plan.phase(Phase::Prepare).unwrap().bytes_of("refiner"),
        ["sinusoids", "time_inner", "time_activated", "time_embedded", "adaln_products"]
            .map(|name| plan.phase(Phase::Prepare).unwrap().bytes_of(name))
            .iter()
            .sum(),
    ];
    let kept = buffers(&plan, Phase::Prepare, &["prompt_embeds"]) - refiner - embedding;
    let denoise = buffers(&plan, Phase::Denoise, &["video_rows", "audio_rows", "text"]);
    assert_eq!(denoise, kept);

    let tiles = sizes.tiles();
    let decoder = VideoDecoder::load(&ops, &components.video_vae, sizes.video_vae.clone(), decode, tiles).unwrap();
    let grid = spec.target().video;
    let [frames, height, width] = [grid.frames, grid.height, grid.width].map(|size| size as usize);
    let values = vec![0.0; sizes.video_vae.latent_channels * frames * height * width];
    let taken = made(&ops, || {
        let latents = VideoLatents { values: &values, frames, height, width };
        decoder.decode(&ops, latents, &mut run, &mut |_| Ok::<_, std::io::Error>(())).unwrap();
    });
    assert_eq!(taken, buffers(&plan, Phase::DecodeVideo, &[]), "decode in {decode:?}");

    let keyframe = RequestShape {
        task: Task::Fl2va,
        references: ReferenceCounts { images: 1, ..ReferenceCounts::default() },
        ..shape
    };
    let plan = planner.plan(&keyframe, &budgets(80 * GIB)).unwrap();
    let encoder = VideoEncoder::load(&ops, &components.video_vae, sizes.video_vae.clone(), tiles).unwrap();
    let [height, width] = [spec.canvas.height(), spec.canvas.width()].map(|side| side as usize);
    let pixels = vec![127; 3 * height * width];
    let taken = made(&ops, || {
        let frames = VideoFrames { values: FrameValues::Rgb8(&pixels), frames: 1, height, width };
        encoder.moments(&ops, frames, &mut run).unwrap();
    });
    assert_eq!(taken, buffers(&plan, Phase::EncodeVideo, &["prompt_embeds"]), "encode");
}
