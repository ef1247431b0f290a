//! Explaining a checkpoint directory to a person or a machine.

use std::collections::HashSet;
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};

use clapboard_h3::Partition;
use serde::Serialize;

use super::component::{Component, ComponentId};
use super::error::Error;
use super::inventory::{Inventory, TensorReport, TensorUse, check};
use super::layout::{Layout, Location};
use super::opened::{Checkpoint, read_audio_vae, read_dit, read_text_encoder, read_video_vae, weights_folder};
use crate::text::Tokenizer;

/// What a checkpoint directory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The directory.
    pub root: PathBuf,
    /// How it is arranged.
    pub layout: Layout,
    /// The partitions that have a transformer.
    pub partitions: Vec<Partition>,
    /// Every component, transformers first.
    pub components: Vec<ComponentInspection>,
    /// The tokenizer.
    pub tokenizer: TokenizerInspection,
    /// Why the checkpoint as a whole cannot be opened; `None` when it can.
    pub problem: Option<String>,
}

/// Whether the tokenizer can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenizerInspection {
    /// Its file; `None` when it could not be found.
    pub file: Option<PathBuf>,
    /// Why it could not be loaded for the language model's vocabulary.
    pub problem: Option<String>,
}

/// What one component holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComponentInspection {
    /// Which component.
    pub component: ComponentId,
    /// The folder of its weights; partitions may share one.
    pub folder: PathBuf,
    /// How many tensors are stored.
    pub tensors: usize,
    /// Learned values that the config asks for.
    pub parameters: u64,
    /// Bytes of the tensors that are read.
    pub bytes: u64,
    /// Bytes of stored tensors that are never read.
    pub unread_bytes: u64,
    /// Sizes of a transformer's parts.
    pub dit: Option<DitSizes>,
    /// Differences between stored and expected tensors.
    pub report: TensorReport,
    /// Why the component could not be read at all.
    pub problem: Option<String>,
}

/// Sizes of a transformer's parts in bytes, as its config asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DitSizes {
    /// Blocks.
    pub blocks: usize,
    /// One block.
    pub block_bytes: u64,
    /// One block without its AdaLN projection.
    pub block_bytes_without_adaln: u64,
    /// All AdaLN projections of blocks.
    pub adaln_bytes: u64,
    /// Everything outside the blocks.
    pub rest_bytes: u64,
}

impl Inspection {
    /// Tells whether the checkpoint can be served as it is.
    pub fn is_usable(&self) -> bool {
        let sound = |c: &ComponentInspection| c.problem.is_none() && c.report.is_usable();
        self.problem.is_none() && self.tokenizer.problem.is_none() && self.components.iter().all(sound)
    }
}

/// Looks at everything in a checkpoint directory; reads configs, headers and the tokenizer, no weights.
///
/// A component that cannot be read is reported, and the others are looked at all the same.
///
/// Errors: those of [`Location::detect`], when there is no checkpoint to speak of.
pub fn inspect(dir: &Path) -> Result<Inspection, Error> {
    let location = Location::detect(dir)?;
    let partitions = location.partitions();
    let mut ids: Vec<ComponentId> = partitions.iter().copied().map(ComponentId::Dit).collect();
    ids.extend([ComponentId::TextEncoder, ComponentId::VideoVae, ComponentId::AudioVae]);
    let problem = Checkpoint::open(dir).err();
    Ok(Inspection {
        root: dir.to_owned(),
        layout: location.layout(),
        partitions,
        components: ids.into_iter().map(|id| inspect_component(&location, id)).collect(),
        tokenizer: inspect_tokenizer(&location),
        problem: problem.as_ref().map(|problem| with_sources(problem)),
    })
}

/// Loads the tokenizer as an engine would.
fn inspect_tokenizer(location: &Location) -> TokenizerInspection {
    let path = match location.tokenizer() {
        Ok(path) => path,
        Err(error) => return TokenizerInspection { file: None, problem: Some(with_sources(&error)) },
    };
    let problem = match read_text_encoder(location) {
        Ok(config) => Tokenizer::load(&path, &config.text).err().map(|error| with_sources(&error)),
        Err(error) => Some(format!("the language model's vocabulary is unknown: {}", with_sources(&error))),
    };
    TokenizerInspection { file: Some(path), problem }
}

fn inspect_component(location: &Location, id: ComponentId) -> ComponentInspection {
    let mut inspection = ComponentInspection {
        component: id,
        folder: weights_folder(location, id).unwrap_or_else(|_| location.root().to_owned()),
        tensors: 0,
        parameters: 0,
        bytes: 0,
        unread_bytes: 0,
        dit: None,
        report: TensorReport::default(),
        problem: None,
    };
    let opened = inventory(location, id).and_then(|(inventory, blocks)| {
        let folder = weights_folder(location, id)?;
        Ok((inventory, blocks, Component::open(id, location.layout(), &folder)?))
    });
    match opened {
        Ok((inventory, blocks, component)) => measure(&mut inspection, &inventory, blocks, &component),
        Err(error) => inspection.problem = Some(with_sources(&error)),
    }
    inspection
}

/// Returns a component's expected tensors and, for a transformer, its number of blocks.
fn inventory(location: &Location, id: ComponentId) -> Result<(Inventory, Option<usize>), Error> {
    Ok(match id {
        ComponentId::Dit(partition) => {
            let config = read_dit(location, partition)?;
            (Inventory::dit(id, &config), Some(config.num_layers))
        }
        ComponentId::TextEncoder => (Inventory::text_encoder(&read_text_encoder(location)?), None),
        ComponentId::VideoVae => (Inventory::video_vae(&read_video_vae(location)?), None),
        ComponentId::AudioVae => (Inventory::audio_vae(&read_audio_vae(location)?), None),
    })
}

fn measure(inspection: &mut ComponentInspection, inventory: &Inventory, blocks: Option<usize>, component: &Component) {
    let expected = inventory.stored(component.layout());
    let read = expected.iter().filter(|tensor| tensor.usage != TensorUse::Unread);
    let read: HashSet<&str> = read.map(|tensor| tensor.name.as_str()).collect();
    for raw in component.stored() {
        let bytes = raw.file_range().len() as u64;
        if read.contains(raw.name()) {
            inspection.bytes += bytes;
        } else {
            inspection.unread_bytes += bytes;
        }
        inspection.tensors += 1;
    }
    inspection.parameters = inventory.parameters();
    inspection.report = check(component, inventory);
    inspection.dit = blocks.map(|blocks| {
        let adaln = |name: &str| name.starts_with("blocks.") && name.contains(".adaln_proj.");
        let block = |name: &str| name.starts_with("blocks.0.");
        DitSizes {
            blocks,
            block_bytes: inventory.bytes(block),
            block_bytes_without_adaln: inventory.bytes(|name| block(name) && !adaln(name)),
            adaln_bytes: inventory.bytes(adaln),
            rest_bytes: inventory.bytes(|name| !name.starts_with("blocks.")),
        }
    });
}

/// Joins an error with its causes.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions: Vec<&str> = self.partitions.iter().map(|partition| partition.as_str()).collect();
        writeln!(f, "checkpoint  {}", self.root.display())?;
        writeln!(f, "layout      {}", self.layout)?;
        writeln!(f, "partitions  {}", partitions.join(", "))?;
        writeln!(f)?;
        writeln!(f, "{:<14}{:>9}{:>18}{:>28}{:>18}", "component", "tensors", "parameters", "bytes", "unread bytes")?;
        for component in &self.components {
            let bytes = Bytes(component.bytes).to_string();
            let name = component.component.to_string();
            let (tensors, parameters) = (component.tensors, Grouped(component.parameters).to_string());
            let unread = Grouped(component.unread_bytes).to_string();
            writeln!(f, "{name:<14}{tensors:>9}{parameters:>18}{bytes:>28}{unread:>18}")?;
        }
        writeln!(f)?;
        for component in &self.components {
            writeln!(f, "{:<14}{}", component.component.to_string(), component.folder.display())?;
        }
        if let Some(file) = &self.tokenizer.file {
            writeln!(f, "{:<14}{}", "tokenizer", file.display())?;
        }
        for component in &self.components {
            if let Some(dit) = &component.dit {
                writeln!(f)?;
                writeln!(f, "{}: {} blocks", component.component, dit.blocks)?;
                writeln!(f, "  block                {:>28}", Bytes(dit.block_bytes).to_string())?;
                writeln!(f, "  block without AdaLN  {:>28}", Bytes(dit.block_bytes_without_adaln).to_string())?;
                writeln!(f, "  all AdaLN            {:>28}", Bytes(dit.adaln_bytes).to_string())?;
                writeln!(f, "  outside the blocks   {:>28}", Bytes(dit.rest_bytes).to_string())?;
            }
        }
        writeln!(f)?;
        for component in &self.components {
            let lines = component.report.lines();
            for line in component.problem.iter().chain(&lines) {
                writeln!(f, "{}: {line}", component.component)?;
            }
        }
        if let Some(problem) = &self.tokenizer.problem {
            writeln!(f, "tokenizer: {problem}")?;
        }
        if let Some(problem) = &self.problem {
            writeln!(f, "checkpoint: {problem}")?;
        }
        f.write_str(if self.is_usable() { "checkpoint is complete" } else { "checkpoint cannot be served" })
    }
}

/// A number with commas between groups of three digits.
struct Grouped(u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A number of bytes, exact and in binary units.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        let mut size = self.0 as f64 / 1024.0;
        let mut unit = UNITS[0];
        for larger in &UNITS[1..] {
            if size < 1024.0 {
                break;
            }
            size /= 1024.0;
            unit = larger;
        }
        write!(f, "{} ({size:.2} {unit})", Grouped(self.0))
    }
}
