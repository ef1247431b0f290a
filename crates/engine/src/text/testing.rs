//! The tiny text encoder that the tests of this folder share.

use std::path::{Path, PathBuf};

use super::tokenizer::Tokenizer;
use crate::checkpoint::TextConfig;

pub(super) fn tokenizer_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tokenizer.json")
}

pub(super) fn tiny_config() -> TextConfig {
    TextConfig {
        vocab_size: 320,
        hidden_size: 40,
        intermediate_size: 64,
        num_layers: 52,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        rms_norm_eps: 1e-6,
        rope_theta: 5e6,
        mrope_section: [4, 2, 2],
        max_position_embeddings: Some(4096),
    }
}

pub(super) fn tiny_tokenizer() -> Tokenizer {
    Tokenizer::load(&tokenizer_path(), &tiny_config()).unwrap()
}
