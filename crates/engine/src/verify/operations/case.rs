//! One operation over one set of sizes.

use std::ops::Range;

use crate::ops::{
    Activation, AliasFreeSnake, CausalConv3dShape, Conv1dShape, DType, GateOrder, GroupNorm, Modulation, NormRounding,
    OpError, Ops, Rotary, Tensor, ViewMut,
};
use crate::verify::compare::Tolerance;

/// An operation with its parameters. Inputs are given in the order of the trait's arguments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operation {
    Cast,
    Linear,
    GatherRows,
    ScatterRows,
    MixRows,
    RmsNorm(NormRounding),
    LayerNorm,
    RmsNormModulate,
    NormRotateHeads {
        rounding: NormRounding,
        has_weight: bool,
        rotates: bool,
    },
    RotateHeads,
    Attention {
        causal: bool,
    },
    /// Attention whose queries, keys and values are parts of one projection `[rows, heads · 3 · head_dim]`.
    JointAttention {
        heads: usize,
    },
    Swiglu(GateOrder),
    Activate(Activation),
    Add,
    Multiply,
    GatedAdd {
        picks: bool,
    },
    EulerStep,
    Conv1d(Conv1dShape),
    ConvTranspose1d(Conv1dShape),
    CausalConv3d(CausalConv3dShape),
    GroupNorm {
        groups: usize,
        activation: Option<Activation>,
    },
    Scale,
    AliasFreeSnake,
    Snake,
    Transpose,
    Unpatchify {
        grid: [usize; 3],
        first_frame: usize,
    },
    CrossFade {
        axis: usize,
        extent: usize,
    },
    PixelsToRgb8,
}

/// An input to draw.
#[derive(Debug, Clone)]
pub(super) enum Given {
    /// Within 1 of `around`.
    Floats { dtype: DType, shape: Vec<usize>, around: f32 },
    /// Rows of a table.
    Picks { count: usize, below: usize },
    /// Distinct rows of a table.
    Places { count: usize, below: usize },
}

/// An output to write.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// Whether every element of the view is written without being read, so that it may hold no number before.
    pub(super) is_fresh: bool,
    /// The part of one axis that the operation is given.
    pub(super) window: Option<(usize, Range<usize>)>,
}

impl Output {
    /// Tells of each element whether it lies in the view.
    pub(super) fn is_written(&self) -> impl Iterator<Item = bool> {
        let (axis, range) = self.window.clone().unwrap_or((0, 0..self.shape[0]));
        let (inner, size) = (self.shape[axis + 1..].iter().product::<usize>(), self.shape[axis]);
        (0..self.shape.iter().product()).map(move |element: usize| range.contains(&(element / inner % size)))
    }
}

/// One comparison.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) operation: Operation,
    /// Types and sizes, for whoever reads the report.
    pub(super) label: String,
    pub(super) inputs: Vec<Given>,
    pub(super) output: Output,
    pub(super) tolerance: Tolerance,
}

impl Operation {
    /// The trait's name for it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Operation::Cast => "cast",
            Operation::Linear => "linear",
            Operation::GatherRows => "gather_rows",
            Operation::ScatterRows => "scatter_rows",
            Operation::MixRows => "mix_rows",
            Operation::RmsNorm(_) => "rms_norm",
            Operation::LayerNorm => "layer_norm",
            Operation::RmsNormModulate => "rms_norm_modulate",
            Operation::NormRotateHeads { .. } => "norm_rotate_heads",
            Operation::RotateHeads => "rotate_heads",
            Operation::Attention { .. } | Operation::JointAttention { .. } => "attention",
            Operation::Swiglu(_) => "swiglu",
            Operation::Activate(_) => "activate",
            Operation::Add => "add",
            Operation::Multiply => "multiply",
            Operation::GatedAdd { .. } => "gated_add",
            Operation::EulerStep => "euler_step",
            Operation::Conv1d(_) => "conv1d",
            Operation::ConvTranspose1d(_) => "conv_transpose1d",
            Operation::CausalConv3d(_) => "causal_conv3d",
            Operation::GroupNorm { .. } => "group_norm",
            Operation::Scale => "scale",
            Operation::AliasFreeSnake => "alias_free_snake",
            Operation::Snake => "snake",
            Operation::Transpose => "transpose",
            Operation::Unpatchify { .. } => "unpatchify",
            Operation::CrossFade { .. } => "cross_fade",
            Operation::PixelsToRgb8 => "pixels_to_rgb8",
        }
    }
}

impl Case {
    /// Runs the operation on one backend.
    pub(super) fn run<O: Ops>(
        &self,
        ops: &O,
        inputs: &[Tensor<O::Buffer>],
        y: ViewMut<'_, O::Buffer>,
    ) -> Result<(), OpError> {
        const EPS: f32 = 1e-6;
        let x = |index: usize| inputs[index].view();
        let optional = |index: usize| inputs.get(index).map(Tensor::view);
        match self.operation {
            Operation::Cast => ops.cast(x(0), y),
            Operation::Linear => ops.linear(x(0), optional(2), x(1), y),
            Operation::GatherRows => ops.gather_rows(x(0), x(1), y),
            Operation::ScatterRows => ops.scatter_rows(x(0), x(1), y),
            Operation::MixRows => ops.mix_rows(x(0), x(1), x(2), y),
            Operation::RmsNorm(rounding) => ops.rms_norm(x(0), x(1), EPS, rounding, y),
            Operation::LayerNorm => ops.layer_norm(x(0), x(1), x(2), EPS, y),
            Operation::RmsNormModulate => {
                let modulation = Modulation { shift: x(2), scale: x(3), rows: x(4) };
                ops.rms_norm_modulate(x(0), x(1), EPS, modulation, y)
            }
            Operation::NormRotateHeads { rounding, has_weight, rotates } => {
                let rotary = rotates.then(|| Rotary { cos: x(0), sin: x(1) });
                ops.norm_rotate_heads(has_weight.then(|| x(2)), EPS, rounding, rotary, y)
            }
            Operation::RotateHeads => ops.rotate_heads(Rotary { cos: x(0), sin: x(1) }, y),
            Operation::Attention { causal } => {
                let scale = 1.0 / (inputs[0].view().width() as f32).sqrt();
                // Scores spread over several, so that weights differ.
                ops.attention(x(0), x(1), x(2), 3.0 * scale, causal, y)
            }
            Operation::JointAttention { heads } => {
                let head_dim = inputs[0].view().width() / (3 * heads);
                let [q, k, v] = [0, 1, 2].map(|part| x(0).split(1, &[heads, 3, head_dim]).select(2, part));
                ops.attention(q, k, v, 3.0 / (head_dim as f32).sqrt(), false, y)
            }
            Operation::Swiglu(order) => ops.swiglu(x(0), order, y),
            Operation::Activate(activation) => ops.activate(activation, x(0), y),
            Operation::Add => ops.add(x(0), y),
            Operation::Multiply => ops.multiply(x(0), y),
            Operation::GatedAdd { picks } => ops.gated_add(x(0), x(1), picks.then(|| x(2)), y),
            Operation::EulerStep => ops.euler_step(x(0), 0.3, 0.7, y),
            Operation::Conv1d(shape) => ops.conv1d(x(0), optional(2), shape, x(1), y),
            Operation::ConvTranspose1d(shape) => ops.conv_transpose1d(x(0), optional(2), shape, x(1), y),
            Operation::CausalConv3d(shape) => ops.causal_conv3d(x(0), optional(2), shape, x(1), y),
            Operation::GroupNorm { groups, activation } => {
                let norm = GroupNorm { weight: x(1), bias: x(2), groups, eps: EPS };
                ops.group_norm(norm, activation, x(0), y)
            }
            Operation::Scale => ops.scale(-1.7, y),
            Operation::AliasFreeSnake => {
                let snake = AliasFreeSnake { upsample: x(0), downsample: x(1), alpha: x(2), beta: x(3) };
                ops.alias_free_snake(snake, x(4), y)
            }
            Operation::Snake => ops.snake(x(0), x(1), y),
            Operation::Transpose => ops.transpose(x(0), y),
            Operation::Unpatchify { grid, first_frame } => ops.unpatchify(x(0), grid, first_frame, y),
            Operation::CrossFade { axis, extent } => ops.cross_fade(x(0), axis, extent, y),
            Operation::PixelsToRgb8 => ops.pixels_to_rgb8(x(0), [0.48, 0.46, 0.41], [0.27, 0.26, 0.28], y),
        }
    }
}
