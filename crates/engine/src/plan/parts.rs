//! The weights of a checkpoint in the parts that live and move together.

use serde::Serialize;

use super::planner::Precision;
use super::sizes::ModelSizes;
use crate::checkpoint::{ComponentId, ExpectedTensor, Inventory, StoredDtype, TensorUse, TextConfig};
use crate::ops::{DType, SLOT_ALIGNMENT};

/// Equal blocks, or the one block of a part that is no stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Part {
    /// How many blocks there are.
    pub count: usize,
    /// Bytes of one as stored.
    pub stored_bytes: u64,
    /// Bytes of one in the types that it computes in.
    pub device_bytes: u64,
    /// Bytes of one in a slot, where each tensor begins aligned.
    pub slot_bytes: u64,
    /// The largest stored tensor that is converted on the device when it is loaded, which both are there for.
    pub converted_bytes: u64,
}

impl Part {
    /// Adds up the tensors that `wanted` accepts, which are those of one block, held in the type that `held` says.
    fn of(
        inventory: &Inventory,
        count: usize,
        held: impl Fn(&ExpectedTensor) -> u64,
        wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let mut part = Self { count, stored_bytes: 0, device_bytes: 0, slot_bytes: 0, converted_bytes: 0 };
        let read = inventory.tensors().iter().filter(|tensor| tensor.usage != TensorUse::Unread);
        for tensor in read.filter(|tensor| wanted(&tensor.name)) {
            let bytes = held(tensor);
            part.stored_bytes += tensor.bytes();
            part.device_bytes += bytes;
            part.slot_bytes += bytes.next_multiple_of(SLOT_ALIGNMENT as u64);
            if bytes != tensor.bytes() {
                part.converted_bytes = part.converted_bytes.max(tensor.bytes());
            }
        }
        part
    }

    /// Returns the bytes of all blocks in the types that they compute in.
    pub fn all_device_bytes(&self) -> u64 {
        self.count as u64 * self.device_bytes
    }

    /// Returns the bytes of all blocks as stored.
    pub fn all_stored_bytes(&self) -> u64 {
        self.count as u64 * self.stored_bytes
    }
}

/// The parts of everything that one partition needs; every tensor that is read is in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The transformer's blocks without their AdaLN projections.
    pub dit_blocks: Part,
    /// The AdaLN projections of the transformer's blocks.
    pub adaln: Part,
    /// What every step needs of the transformer outside its blocks: patch projections, last norm with its AdaLN, heads.
    pub dit_ends: Part,
    /// The token refiner's blocks.
    pub refiner_blocks: Part,
    /// What only the beginning of a request needs: text projection, timestep MLP, the refiner's last norm.
    pub dit_start: Part,
    /// The language model's layers, those that are read.
    pub text_layers: Part,
    /// Its embedding table, of which the host gathers the rows that a prompt has.
    pub embed_tokens: Part,
    /// The vision tower's blocks.
    pub vision_blocks: Part,
    /// The vision tower outside its blocks.
    pub vision_ends: Part,
    /// The video VAE's encoder.
    pub video_encoder: Part,
    /// The video decoder's blocks.
    pub video_decoder_blocks: Part,
    /// The video decoder outside its blocks.
    pub video_decoder_ends: Part,
    /// The audio VAE's encoder.
    pub audio_encoder: Part,
    /// The audio VAE's decoder.
    pub audio_decoder: Part,
}

impl Parts {
    /// Sorts the tensors of every component into parts.
    pub(super) fn of(sizes: &ModelSizes, precision: Precision) -> Self {
        let dtype = precision.dtype;
        let of_transformers = move |tensor: &ExpectedTensor| transformer_bytes(tensor, dtype);

        let dit = Inventory::dit(ComponentId::Dit(sizes.partition), &sizes.dit);
        let is_adaln = |name: &str| name.contains(".adaln_proj.");
        let dit_part = |count, wanted: &dyn Fn(&str) -> bool| Part::of(&dit, count, of_transformers, wanted);
        let in_blocks = |name: &str| name.starts_with("blocks.") || name.starts_with("token_refiner.blocks.");
        let starts = ["condition_proj.", "time_embedder.", "token_refiner.final_norm."];
        let at_start = move |name: &str| starts.iter().any(|start| name.starts_with(start));

        let text = Inventory::text_encoder(&sizes.text);
        let text_part = |count, wanted: &dyn Fn(&str) -> bool| Part::of(&text, count, of_transformers, wanted);

        let video = Inventory::video_vae(&sizes.video_vae);
        let compute = precision.decode;
        let encodes = |name: &str| name.starts_with("encoder.") || name.starts_with("quant_conv.");
        let in_vit = |name: &str| name.starts_with("decoder.transformer_blocks.");
        let decoder_part = |count, wanted: &dyn Fn(&str) -> bool| {
            Part::of(&video, count, move |tensor| decoder_bytes(tensor, compute), wanted)
        };

        let audio = Inventory::audio_vae(&sizes.audio_vae);
        let audio_part = |wanted: &dyn Fn(&str) -> bool| Part::of(&audio, 1, ExpectedTensor::bytes, wanted);
        let decodes_audio = |name: &str| name.starts_with("decoder.") || name.starts_with("dec_in_proj.");

        Self {
            dit_blocks: dit_part(sizes.dit.num_layers, &|name| name.starts_with("blocks.0.") && !is_adaln(name)),
            adaln: dit_part(sizes.dit.num_layers, &|name| name.starts_with("blocks.0.") && is_adaln(name)),
            dit_ends: dit_part(1, &|name| !in_blocks(name) && !at_start(name)),
            refiner_blocks: dit_part(sizes.dit.num_refiner_layers, &|name| name.starts_with("token_refiner.blocks.0.")),
            dit_start: dit_part(1, &at_start),
            text_layers: text_part(TextConfig::CONDITIONING_LAYERS, &|name| {
                name.starts_with("model.language_model.layers.0.")
            }),
            embed_tokens: text_part(1, &|name| name.starts_with("model.language_model.embed_tokens.")),
            vision_blocks: text_part(sizes.text.vision.depth, &|name| name.starts_with("model.visual.blocks.0.")),
            vision_ends: text_part(1, &|name| {
                name.starts_with("model.visual.") && !name.starts_with("model.visual.blocks.")
            }),
            video_encoder: Part::of(&video, 1, ExpectedTensor::bytes, encodes),
            video_decoder_blocks: decoder_part(sizes.video_vae.decoder_num_layers, &|name| {
                name.starts_with("decoder.transformer_blocks.0.")
            }),
            video_decoder_ends: decoder_part(1, &|name| !encodes(name) && !in_vit(name)),
            audio_encoder: audio_part(&|name| !decodes_audio(name)),
            audio_decoder: audio_part(&decodes_audio),
        }
    }

    /// Returns every part with the name that tables have for it.
    pub fn named(&self) -> [(&'static str, Part); 14] {
        [
            ("transformer blocks", self.dit_blocks),
            ("AdaLN projections", self.adaln),
            ("transformer ends", self.dit_ends),
            ("refiner blocks", self.refiner_blocks),
            ("transformer start", self.dit_start),
            ("language layers", self.text_layers),
            ("token embeddings", self.embed_tokens),
            ("vision blocks", self.vision_blocks),
            ("vision ends", self.vision_ends),
            ("video encoder", self.video_encoder),
            ("video decoder blocks", self.video_decoder_blocks),
            ("video decoder ends", self.video_decoder_ends),
            ("audio encoder", self.audio_encoder),
            ("audio decoder", self.audio_decoder),
        ]
    }
}

/// Norms, branch scales and tables are held as stored; factors of products and their biases in the products' type.
fn is_held_as_stored(name: &str) -> bool {
    ["norm", ".scale1", ".scale2", "embed_tokens", "pos_embed"].iter().any(|part| name.contains(part))
}

/// What the engine holds of a tensor of the transformer or the text encoder.
fn transformer_bytes(tensor: &ExpectedTensor, dtype: DType) -> u64 {
    // What the release keeps in F32 stays in F32.
    if tensor.dtype == StoredDtype::F32 || is_held_as_stored(&tensor.name) {
        tensor.bytes()
    } else {
        tensor.elements() * dtype.size() as u64
    }
}

/// What the engine holds of a tensor of the video decoder.
fn decoder_bytes(tensor: &ExpectedTensor, compute: DType) -> u64 {
    if is_held_as_stored(&tensor.name) { tensor.bytes() } else { tensor.elements() * compute.size() as u64 }
}
