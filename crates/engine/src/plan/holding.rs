//! What a phase holds on the device.

use serde::Serialize;

use super::parts::Part;
use crate::activations::ActivationPlan;
use crate::weights::SLOTS;

/// A part of a generation that has the device's memory to itself, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Pictures and videos through the vision tower.
    Vision,
    /// The prompt through the language model.
    Text,
    /// Pictures and videos through the video VAE.
    EncodeVideo,
    /// Sounds through the audio VAE.
    EncodeAudio,
    /// The refined text, the timestep embeddings and the AdaLN table of the schedule.
    Prepare,
    /// The steps.
    Denoise,
    /// Latents to samples.
    DecodeAudio,
    /// Latents to frames.
    DecodeVideo,
}

impl Phase {
    /// Returns its name in tables and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::Text => "text",
            Self::EncodeVideo => "encode video",
            Self::EncodeAudio => "encode audio",
            Self::Prepare => "prepare",
            Self::Denoise => "denoise",
            Self::DecodeAudio => "decode audio",
            Self::DecodeVideo => "decode video",
        }
    }
}

/// Where weights are in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Brought in at the phase's beginning, given up at its end.
    Staged,
    /// The same of the transformer's leading blocks: every step finds them there.
    Resident,
    /// Through the slots, block by block.
    Streams,
    /// Only on the host.
    NotLoaded,
}

impl Place {
    /// Returns its name in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Staged => "staged",
            Self::Resident => "resident",
            Self::Streams => "streams",
            Self::NotLoaded => "not loaded",
        }
    }
}

/// What kind of memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldingKind {
    /// Weights, or a place for none where they stream or stay on the host.
    Weights(Place),
    /// Where blocks stream through.
    Slots,
    /// A buffer of the networks.
    Buffer,
    /// What libraries and kernels need beside.
    Workspace,
    /// What the driver and its libraries take of the device for themselves.
    Overhead,
}

/// One line of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// What it is.
    pub name: &'static str,
    /// What kind of memory it is.
    pub kind: HoldingKind,
    /// How many blocks or slots, 1 for what is no stack.
    pub count: usize,
    /// Bytes on the device, of all of them.
    pub bytes: u64,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhasePlan {
    /// Which.
    pub phase: Phase,
    /// Everything that it holds; the sum is its peak.
    pub holdings: Vec<Holding>,
    /// Bytes that it copies to the device in all; what is computed from is small beside weights and not counted.
    pub moved_bytes: u64,
    /// Predicted seconds, where they are predicted.
    pub seconds: Option<f64>,
}

impl PhasePlan {
    pub(super) fn new(phase: Phase) -> Self {
        Self { phase, holdings: Vec::new(), moved_bytes: 0, seconds: None }
    }

    /// Returns the most memory that it takes of the device.
    pub fn peak_bytes(&self) -> u64 {
        self.holdings.iter().map(|holding| holding.bytes).sum()
    }

    /// Returns what it holds under a name, in bytes.
    pub fn bytes_of(&self, name: &str) -> u64 {
        self.holdings.iter().filter(|holding| holding.name == name).map(|holding| holding.bytes).sum()
    }

    /// Returns what it holds beside weights and slots.
    pub(super) fn bytes_beside_weights(&self) -> u64 {
        let beside = |holding: &&Holding| !matches!(holding.kind, HoldingKind::Weights(_) | HoldingKind::Slots);
        self.holdings.iter().filter(beside).map(|holding| holding.bytes).sum()
    }

    pub(super) fn hold(&mut self, name: &'static str, kind: HoldingKind, count: usize, bytes: u64) {
        self.holdings.push(Holding { name, kind, count, bytes });
    }

    /// Brings a part in whole.
    pub(super) fn stage(&mut self, name: &'static str, part: Part) {
        let bytes = part.all_device_bytes();
        self.hold(name, HoldingKind::Weights(Place::Staged), part.count, bytes);
        if part.converted_bytes > 0 {
            self.hold("one tensor as stored", HoldingKind::Workspace, 1, part.converted_bytes);
        }
        self.moved_bytes += part.all_stored_bytes();
    }

    /// Notes a part that streams; its blocks are moved `times` times.
    pub(super) fn stream(&mut self, name: &'static str, part: Part, times: u64) {
        self.hold(name, HoldingKind::Weights(Place::Streams), part.count, 0);
        self.moved_bytes += times * part.all_device_bytes();
    }

    /// Notes a part of which the device never holds anything.
    pub(super) fn leave(&mut self, name: &'static str, part: Part) {
        self.hold(name, HoldingKind::Weights(Place::NotLoaded), part.count, 0);
    }

    /// Cuts slots for blocks of `parts`.
    pub(super) fn slots(&mut self, parts: &[Part]) {
        let largest = parts.iter().map(|part| part.slot_bytes).max().unwrap_or(0);
        self.hold("slots", HoldingKind::Slots, SLOTS, SLOTS as u64 * largest);
    }

    /// Makes the buffers of a plan.
    pub(super) fn buffers(&mut self, plan: &ActivationPlan) {
        for planned in plan.buffers() {
            self.hold(planned.name, HoldingKind::Buffer, 1, planned.bytes() as u64);
        }
    }
}
