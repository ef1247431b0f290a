//! Plans and refusals as people and programs read them.

use clapboard_engine::plan::{
    Holding, HoldingKind, PhasePlan, Refusal, RequestShape, ResidencyPlan, ResidentLayers, SequenceShape,
};
use clapboard_jobs::CapacityClass;
use serde_json::{Value, json};

use crate::table::Table;

/// Buffers below this many bytes are told of together.
const SMALL: u64 = 1 << 20;

/// Writes a plan as tables; `most` is the longest sequence within its budget.
pub(super) fn text(shape: &RequestShape, plan: &ResidencyPlan, most: Option<usize>) -> String {
    let today = gib(plan.unstreamed_hbm_bytes);
    let budgets = &plan.budgets;
    let host =
        budgets.host_bytes.map_or_else(|| "as much as it takes".to_owned(), |bytes| format!("{} GiB", gib(bytes)));
    let longest = most.map_or_else(
        || "no sequence fits this budget whatever the canvas".to_owned(),
        |rows| format!("{rows} rows, capacity classes up to {}", class_below(rows)),
    );
    [
        format!(
            "An engine with --offload layer follows this plan; without it every weight stays on the GPU, {today} GiB for this \
             request."
        ),
        head(shape, &plan.sequence),
        format!(
            "budget      GPU {} GiB, host {host}, resident layers {}",
            gib(budgets.hbm_bytes),
            budgets.resident_layers
        ),
        format!("longest     {longest}\n"),
        phases(plan).to_string(),
        String::new(),
        weights(plan).to_string(),
        String::new(),
        steps(plan).to_string(),
        String::new(),
        tightest(plan).to_string(),
        String::new(),
        hosted(plan).to_string(),
    ]
    .join("\n")
}

fn head(shape: &RequestShape, sequence: &SequenceShape) -> String {
    let RequestShape { task, canvas, num_frames, .. } = shape;
    let SequenceShape { rows, text_rows, video_rows, audio_rows, forwards, .. } = sequence;
    format!(
        "request     {task}, {canvas}, {num_frames} frames, {forwards} forwards over {rows} rows: {text_rows} of text, \
         {video_rows} of video, {audio_rows} of audio"
    )
}

/// The largest class of which every job fits `rows`.
fn class_below(rows: usize) -> String {
    CapacityClass::held_whole(Some(rows as u64)).last().map_or_else(|| "none".to_owned(), |class| class.to_string())
}

fn phases(plan: &ResidencyPlan) -> Table<7> {
    let mut table = Table::new(["PHASE", "GPU PEAK GiB", "WEIGHTS", "SLOTS", "BUFFERS", "COPIED GB", "SECONDS"]);
    for phase in &plan.phases {
        let of = |wanted: fn(HoldingKind) -> bool| {
            let found = phase.holdings.iter().filter(|holding| wanted(holding.kind));
            gib(found.map(|holding| holding.bytes).sum())
        };
        table.add([
            phase.phase.as_str().to_owned(),
            gib(phase.peak_bytes()),
            of(|kind| matches!(kind, HoldingKind::Weights(_))),
            of(|kind| kind == HoldingKind::Slots),
            of(|kind| !matches!(kind, HoldingKind::Weights(_) | HoldingKind::Slots)),
            gb(phase.moved_bytes),
            phase.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
        ]);
    }
    let (peak, moved) = (gib(plan.peak_bytes()), gb(plan.moved_bytes()));
    let seconds = format!("{:.1}", plan.seconds());
    table.add(["all".to_owned(), peak, String::new(), String::new(), String::new(), moved, seconds]);
    table
}

fn weights(plan: &ResidencyPlan) -> Table<5> {
    let mut table = Table::new(["PHASE", "WEIGHTS", "BLOCKS", "WHERE", "GPU GiB"]);
    for phase in &plan.phases {
        for holding in &phase.holdings {
            if let HoldingKind::Weights(placement) = holding.kind {
                table.add([
                    phase.phase.as_str().to_owned(),
                    holding.name.to_owned(),
                    holding.count.to_string(),
                    placement.as_str().to_owned(),
                    gib(holding.bytes),
                ]);
            }
        }
    }
    table
}

fn steps(plan: &ResidencyPlan) -> Table<2> {
    let step = &plan.step;
    let mut table = Table::new(["STEP", ""]);
    let mut add = |name: &str, value: String| table.add([name.to_owned(), value]);
    let (resident, streamed) = (step.resident_layers, step.streamed_layers);
    add("blocks", format!("{resident} resident, {streamed} stream, {:.3} GB each", step.block_bytes as f64 / 1e9));
    let (blocks, table_bytes) = (gb(step.block_bytes_per_step), gb(step.table_bytes_per_step));
    add("copied", format!("{blocks} GB of blocks, {table_bytes} GB of the AdaLN table's {} GB", gb(step.table_bytes)));
    add("copies alone", format!("{:.2} s", step.copy_seconds));
    add("computing alone", format!("{:.2} s", step.compute_seconds));
    add("together", format!("{:.2} s, the first {:.2} s", step.seconds, step.first_seconds));
    table
}

/// The phase that takes the most of the device, buffer by buffer.
fn tightest(plan: &ResidencyPlan) -> Table<3> {
    let mut table = Table::new(["PHASE", "MEMORY", "GPU GiB"]);
    let Some(phase) = plan.phases.iter().max_by_key(|phase| phase.peak_bytes()) else { return table };
    let (large, small) = sorted(phase);
    let name = phase.phase.as_str();
    for holding in large {
        table.add([name.to_owned(), holding.name.to_owned(), gib(holding.bytes)]);
    }
    table.add([name.to_owned(), "everything else".to_owned(), gib(small)]);
    table
}

/// What a phase holds, largest first, and the sum of what is too small to tell of.
fn sorted(phase: &PhasePlan) -> (Vec<&Holding>, u64) {
    let (mut large, small): (Vec<_>, Vec<_>) = phase.holdings.iter().partition(|holding| holding.bytes >= SMALL);
    large.sort_by_key(|holding| std::cmp::Reverse(holding.bytes));
    (large, small.iter().map(|holding| holding.bytes).sum())
}

fn hosted(plan: &ResidencyPlan) -> Table<4> {
    let mut table = Table::new(["HOST", "IN MEMORY", "FROM FILES", "GiB"]);
    for holding in &plan.host.holdings {
        let counts = [holding.in_memory, holding.from_file].map(|count| count.to_string());
        let [in_memory, from_file] = counts;
        table.add([holding.name.to_owned(), in_memory, from_file, gib(holding.bytes)]);
    }
    table.add(["all".to_owned(), String::new(), String::new(), gib(plan.host.bytes())]);
    table
}

/// Writes a refusal with what takes the most.
pub(super) fn refusal(shape: &RequestShape, refusal: &Refusal) -> String {
    let RequestShape { task, canvas, num_frames, .. } = shape;
    let said = format!("{task}, {canvas}, {num_frames} frames does not fit: {refusal}");
    let Refusal::Device { largest, .. } = refusal else { return said };
    let mut table = Table::new(["LARGEST", "GPU GiB"]);
    for (name, bytes) in largest {
        table.add([(*name).to_owned(), gib(*bytes)]);
    }
    format!("{said}\n\n{table}")
}

/// A plan as an object.
pub(super) fn object(plan: &ResidencyPlan, most: Option<usize>) -> Value {
    let resident = match plan.budgets.resident_layers {
        ResidentLayers::Auto => json!("auto"),
        ResidentLayers::Fixed(layers) => json!(layers),
    };
    json!({
        "fits": true,
        "followed_by_the_engine": false,
        "unstreamed_hbm_bytes": plan.unstreamed_hbm_bytes,
        "peak_hbm_bytes": plan.peak_bytes(),
        "host_bytes": plan.host.bytes(),
        "moved_bytes": plan.moved_bytes(),
        "seconds": plan.seconds(),
        "largest_rows": most,
        "sequence": plan.sequence,
        "budgets": {
            "hbm_bytes": plan.budgets.hbm_bytes,
            "host_bytes": plan.budgets.host_bytes,
            "resident_layers": resident,
        },
        "step": plan.step,
        "phases": plan.phases.iter().map(phase_object).collect::<Vec<_>>(),
        "host": plan.host.holdings,
    })
}

fn phase_object(phase: &PhasePlan) -> Value {
    json!({
        "phase": phase.phase,
        "peak_bytes": phase.peak_bytes(),
        "moved_bytes": phase.moved_bytes,
        "seconds": phase.seconds,
        "holdings": phase.holdings.iter().map(holding_object).collect::<Vec<_>>(),
    })
}

fn holding_object(holding: &Holding) -> Value {
    let (kind, placement) = match holding.kind {
        HoldingKind::Weights(placement) => ("weights", Some(placement)),
        HoldingKind::Slots => ("slots", None),
        HoldingKind::Buffer => ("buffer", None),
        HoldingKind::Workspace => ("workspace", None),
        HoldingKind::Overhead => ("overhead", None),
    };
    json!({
        "name": holding.name,
        "kind": kind,
        "placement": placement,
        "count": holding.count,
        "bytes": holding.bytes,
    })
}

/// A refusal as an object.
pub(super) fn refused(refusal: &Refusal) -> Value {
    let mut object = json!({ "fits": false, "message": refusal.to_string() });
    match refusal {
        Refusal::Device { phase, needed, budget, largest, alternatives } => {
            object["phase"] = json!(phase);
            object["needed_bytes"] = json!(needed);
            object["budget_bytes"] = json!(budget);
            let largest = largest.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes }));
            object["largest"] = largest.collect();
            object["would_fit"] = json!({
                "hbm_bytes": alternatives.least_hbm_bytes,
                "resident_layers": alternatives.resident_layers,
                "num_frames": alternatives.num_frames,
                "size": alternatives.canvas.map(|canvas| canvas.to_string()),
            });
        }
        Refusal::Host { needed, budget } => {
            object["needed_host_bytes"] = json!(needed);
            object["budget_host_bytes"] = json!(budget);
        }
        Refusal::Shape(_) | Refusal::OneStreamed { .. } => {}
    }
    object
}

fn gib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 30))
}

fn gb(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e9)
}
