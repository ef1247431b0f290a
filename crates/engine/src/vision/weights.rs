//! Weights of the vision tower, as stored.

use crate::checkpoint::{Component, StoredDtype, VisionConfig};
use crate::load::LoadError;
use crate::ops::{DType, Tensor};
use crate::projection::{Affine, Linear};
use crate::weights::WeightLoader;

/// Element types that weights may be stored in; products round them to the activations' type.
const STORED: [StoredDtype; 3] = [StoredDtype::BF16, StoredDtype::F16, StoredDtype::F32];

/// Weights of one block; projections are `[out, in]`.
pub struct VisionBlockWeights<B> {
    /// Norm before attention `[hidden]`.
    pub norm1: Affine<B>,
    /// Queries, then keys, then values `[3 · hidden, hidden]`.
    pub qkv: Linear<B>,
    /// Output projection `[hidden, hidden]`.
    pub proj: Linear<B>,
    /// Norm before the feed-forward layer `[hidden]`.
    pub norm2: Affine<B>,
    /// `[intermediate, hidden]`.
    pub fc1: Linear<B>,
    /// `[hidden, intermediate]`.
    pub fc2: Linear<B>,
}

/// Weights that turn merged patches into tokens.
pub struct MergerWeights<B> {
    /// Over patches `[hidden]`, or over merged patches `[merged]`.
    pub norm: Affine<B>,
    /// `[merged, merged]`.
    pub fc1: Linear<B>,
    /// `[out_hidden, merged]`.
    pub fc2: Linear<B>,
}

/// Takes the tower's tensors by name and shape.
pub(super) struct Loader<'a, B> {
    pub(super) to: &'a dyn WeightLoader<B>,
    pub(super) component: &'a Component,
    pub(super) config: &'a VisionConfig,
    /// What products compute in.
    pub(super) dtype: DType,
}

impl<B> Loader<'_, B> {
    /// The convolution over patches, which do not overlap, as a projection of their rows.
    pub(super) fn patch_embed(&self) -> Result<Linear<B>, LoadError> {
        let &VisionConfig { hidden_size, in_channels, temporal_patch_size, patch_size, .. } = self.config;
        let name = "model.visual.patch_embed.proj";
        let kernel = [hidden_size, in_channels, temporal_patch_size, patch_size, patch_size];
        let mut stored = self.component.expect(&format!("{name}.weight"), &kernel, &STORED)?;
        stored.shape = vec![hidden_size, kernel[1..].iter().product()];
        let bias = self.factor(&format!("{name}.bias"), &[hidden_size])?;
        Ok(Linear { weight: self.to.weight_in(&stored, self.dtype)?, bias })
    }

    /// The learned position table.
    pub(super) fn pos_embed(&self) -> Result<Tensor<B>, LoadError> {
        let &VisionConfig { num_position_embeddings, hidden_size, .. } = self.config;
        self.tensor("model.visual.pos_embed.weight", &[num_position_embeddings, hidden_size])
    }

    /// Block `index`.
    pub(super) fn block(&self, index: usize) -> Result<VisionBlockWeights<B>, LoadError> {
        let &VisionConfig { hidden_size, intermediate_size, .. } = self.config;
        let name = |leaf: &str| format!("model.visual.blocks.{index}.{leaf}");
        Ok(VisionBlockWeights {
            norm1: self.norm(&name("norm1"), hidden_size)?,
            qkv: self.linear(&name("attn.qkv"), 3 * hidden_size, hidden_size)?,
            proj: self.linear(&name("attn.proj"), hidden_size, hidden_size)?,
            norm2: self.norm(&name("norm2"), hidden_size)?,
            fc1: self.linear(&name("mlp.linear_fc1"), intermediate_size, hidden_size)?,
            fc2: self.linear(&name("mlp.linear_fc2"), hidden_size, intermediate_size)?,
        })
    }

    /// The merger after the last block, which norms patches.
    pub(super) fn merger(&self) -> Result<MergerWeights<B>, LoadError> {
        self.merger_named("model.visual.merger", self.config.hidden_size)
    }

    /// Deepstack merger `index`, which norms merged patches.
    pub(super) fn deepstack_merger(&self, index: usize) -> Result<MergerWeights<B>, LoadError> {
        self.merger_named(&format!("model.visual.deepstack_merger_list.{index}"), self.config.merged_dim())
    }

    fn merger_named(&self, name: &str, normed: usize) -> Result<MergerWeights<B>, LoadError> {
        let merged = self.config.merged_dim();
        Ok(MergerWeights {
            norm: self.norm(&format!("{name}.norm"), normed)?,
            fc1: self.linear(&format!("{name}.linear_fc1"), merged, merged)?,
            fc2: self.linear(&format!("{name}.linear_fc2"), self.config.out_hidden_size, merged)?,
        })
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear<B>, LoadError> {
        Linear::take(name, [outputs, inputs], |name, shape| self.factor(name, shape))
    }

    fn norm(&self, name: &str, width: usize) -> Result<Affine<B>, LoadError> {
        Affine::take(name, width, |name, shape| self.tensor(name, shape))
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor<B>, LoadError> {
        Ok(self.to.weight(&self.component.expect(name, shape, &STORED)?)?)
    }

    /// A factor or a bias of products.
    fn factor(&self, name: &str, shape: &[usize]) -> Result<Tensor<B>, LoadError> {
        Ok(self.to.weight_in(&self.component.expect(name, shape, &STORED)?, self.dtype)?)
    }
}
