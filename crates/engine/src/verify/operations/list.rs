//! The comparisons, family by family.

use super::case::{Case, Given, Operation, Output};
use crate::ops::{
    Activation, CausalConv3dShape, Conv1dShape, DType, GateOrder, KernelSize, NormRounding, ReflectPadding, Stride,
};
use crate::verify::compare::Tolerance;

const F32: DType = DType::F32;
const BF16: DType = DType::Bf16;
const F16: DType = DType::F16;

/// The types that networks compute in.
const FLOATS: [DType; 3] = [F32, BF16, F16];

/// Every comparison.
pub(super) fn cases() -> Vec<Case> {
    let families =
        [products(), rows(), norms(), heads(), attention(), elementwise(), convolutions(), sound(), pixels()];
    families.into_iter().flatten().collect()
}

/// What results of a type may differ by when sums have another order: in 16 bits, a value at a tie may fall to the
/// other side, which is rare and then 2⁻⁸ or 2⁻¹¹ of it.
fn near(dtype: DType) -> Tolerance {
    Tolerance::RelativeRms(match dtype {
        BF16 => 1e-3,
        F16 => 2e-4,
        DType::F32 | DType::U8 | DType::U32 => 2e-6,
    })
}

fn floats(dtype: DType, shape: &[usize]) -> Given {
    around(0.0, dtype, shape)
}

fn around(around: f32, dtype: DType, shape: &[usize]) -> Given {
    Given::Floats { dtype, shape: shape.to_vec(), around }
}

fn fresh(dtype: DType, shape: &[usize]) -> Output {
    Output { dtype, shape: shape.to_vec(), is_fresh: true, window: None }
}

/// An output that is read, too.
fn changed(dtype: DType, shape: &[usize]) -> Output {
    Output { is_fresh: false, ..fresh(dtype, shape) }
}

fn case(operation: Operation, label: impl Into<String>, inputs: Vec<Given>, output: Output) -> Case {
    let tolerance = near(output.dtype);
    Case { operation, label: label.into(), inputs, output, tolerance }
}

fn products() -> Vec<Case> {
    let mut cases = Vec::new();
    // Sizes that are no multiples of anything, those that are, and one row.
    for [m, k, n] in [[1, 64, 96], [17, 33, 5], [130, 72, 200], [257, 1000, 129], [64, 4096, 64]] {
        for (x, w, y) in [
            (F32, F32, F32),
            (BF16, BF16, BF16),
            (F16, F16, F16),
            (BF16, F32, BF16),
            (F16, F32, F16),
            (F32, BF16, F32),
            (BF16, BF16, F32),
            (F32, F32, BF16),
        ] {
            for biased in [false, true] {
                let mut inputs = vec![floats(w, &[n, k]), floats(x, &[m, k])];
                if biased {
                    inputs.push(floats(w, &[n]));
                }
                let label = format!("{m} x {k} x {n}, {x} by {w} to {y}{}", if biased { ", bias" } else { "" });
                cases.push(case(Operation::Linear, label, inputs, fresh(y, &[m, n])));
            }
        }
    }
    // Tensor cores keep fewer bits of long sums than F32 has.
    let deep = |case: &mut Case| {
        if case.output.dtype == F32 && matches!(case.inputs[1], Given::Floats { dtype: BF16 | F16, .. }) {
            case.tolerance = Tolerance::RelativeRms(1e-5);
        }
    };
    cases.iter_mut().for_each(deep);
    for dtype in FLOATS {
        let mut output = fresh(dtype, &[17, 40]);
        output.window = Some((1, 3..27));
        let inputs = vec![floats(dtype, &[24, 48]), floats(dtype, &[17, 48]), floats(dtype, &[24])];
        cases.push(case(Operation::Linear, format!("columns of a wider output, {dtype}"), inputs, output));
    }
    // More F32 sums than are held beside a result at a time, the last of them few.
    let (m, k, n) = (1_100, 8, 8_192);
    let inputs = vec![floats(F32, &[n, k]), floats(F32, &[m, k]), floats(F32, &[n])];
    let label = format!("{m} x {k} x {n}, F32 by F32 to BF16, bias");
    cases.push(case(Operation::Linear, label, inputs, fresh(BF16, &[m, n])));
    cases
}

fn rows() -> Vec<Case> {
    let mut cases = Vec::new();
    for (from, to) in [(F32, BF16), (BF16, F32), (F16, F32), (F32, F16), (BF16, BF16), (F16, BF16)] {
        let label = format!("17 of 31 rows of 7, {from} to {to}");
        let picks = Given::Picks { count: 17, below: 31 };
        cases.push(case(Operation::GatherRows, &*label, vec![floats(from, &[31, 7]), picks], fresh(to, &[17, 7])));
        let places = Given::Places { count: 17, below: 31 };
        cases.push(case(Operation::ScatterRows, label, vec![floats(from, &[17, 7]), places], changed(to, &[31, 7])));
        let taps = vec![floats(from, &[31, 7]), Given::Picks { count: 17 * 4, below: 31 }, floats(F32, &[17, 4])];
        cases.push(case(Operation::MixRows, format!("four of 31, {from} to {to}"), taps, fresh(to, &[17, 7])));
        let label = format!("[3, 5, 7], {from} to {to}");
        cases.push(case(Operation::Cast, label, vec![floats(from, &[3, 5, 7])], fresh(to, &[3, 5, 7])));
        for [m, n] in [[1, 65], [33, 1], [130, 67]] {
            let label = format!("{m} x {n}, {from} to {to}");
            cases.push(case(Operation::Transpose, label, vec![floats(from, &[m, n])], fresh(to, &[n, m])));
        }
    }
    let mut output = fresh(BF16, &[9, 5, 12]);
    output.window = Some((2, 1..8));
    cases.push(case(Operation::Cast, "channels of a wider output", vec![floats(F32, &[9, 5, 7])], output));
    cases
}

fn norms() -> Vec<Case> {
    let mut cases = Vec::new();
    for [rows, width] in [[1, 5], [17, 96], [3, 5376], [130, 1001], [5, 8200]] {
        for (x, y) in [(F32, F32), (BF16, BF16), (F16, F16), (F32, BF16), (F32, F16)] {
            let label = format!("{rows} x {width}, {x} to {y}");
            for rounding in [NormRounding::Once, NormRounding::BeforeWeight] {
                let inputs = vec![floats(x, &[rows, width]), around(1.0, x, &[width])];
                let label = format!("{label}, {rounding:?}");
                cases.push(case(Operation::RmsNorm(rounding), label, inputs, fresh(y, &[rows, width])));
            }
            let inputs = vec![around(1.0, x, &[rows, width]), around(1.0, x, &[width]), floats(x, &[width])];
            cases.push(case(Operation::LayerNorm, &*label, inputs, fresh(y, &[rows, width])));
            let table = floats(x, &[6, width]);
            let picks = Given::Picks { count: rows, below: 6 };
            let inputs = vec![floats(x, &[rows, width]), around(1.0, x, &[width]), table.clone(), table, picks];
            cases.push(case(Operation::RmsNormModulate, label, inputs, fresh(y, &[rows, width])));
        }
    }
    for [channels, frames, pixels, groups] in [[4, 3, 11, 2], [64, 1, 1000, 32], [6, 2, 1, 3]] {
        for activation in [None, Some(Activation::Silu)] {
            for (x, y) in [(F32, F32), (F32, F16), (BF16, BF16)] {
                let shape = [channels, frames, pixels];
                let inputs = vec![around(20.0, x, &shape), floats(F32, &[channels]), floats(F32, &[channels])];
                let label = format!("{shape:?} in {groups}, {activation:?}, {x} to {y}");
                cases.push(case(Operation::GroupNorm { groups, activation }, label, inputs, fresh(y, &shape)));
            }
        }
    }
    // The mean is several times what is left of it, and the bits that it takes are lost.
    let loose = |case: &mut Case| {
        let centred = matches!(case.operation, Operation::GroupNorm { .. } | Operation::LayerNorm);
        if centred && case.output.dtype == F32 {
            case.tolerance = Tolerance::RelativeRms(1e-5);
        }
    };
    cases.iter_mut().for_each(loose);
    cases
}

fn heads() -> Vec<Case> {
    let mut cases = Vec::new();
    for [rows, heads, head_dim, width] in
        [[1, 1, 8, 8], [17, 7, 128, 96], [9, 11, 128, 128], [5, 3, 72, 72], [33, 2, 20, 6]]
    {
        for dtype in FLOATS {
            let shape = [rows, heads, head_dim];
            let tables = || vec![floats(F32, &[rows, width]), floats(F32, &[rows, width])];
            let label = format!("{shape:?}, {width} turned, {dtype}");
            cases.push(case(Operation::RotateHeads, &*label, tables(), changed(dtype, &shape)));
            for rounding in [NormRounding::Once, NormRounding::BeforeWeight] {
                for (has_weight, rotates) in [(false, true), (true, true), (true, false)] {
                    let mut inputs = tables();
                    inputs.push(around(1.0, dtype, &[head_dim]));
                    let operation = Operation::NormRotateHeads { rounding, has_weight, rotates };
                    let label = format!("{label}, {rounding:?}, weight {has_weight}, rotation {rotates}");
                    cases.push(case(operation, label, inputs, changed(dtype, &shape)));
                }
            }
        }
    }
    cases
}

fn attention() -> Vec<Case> {
    let mut cases = Vec::new();
    // Weights are rounded to 16 bits before they are divided by their sum, each at a maximum of its own.
    let tolerance = |dtype| match dtype {
        BF16 => Tolerance::RelativeRms(5e-3),
        F16 => Tolerance::RelativeRms(1e-3),
        DType::F32 | DType::U8 | DType::U32 => Tolerance::RelativeRms(1e-5),
    };
    let sizes = [
        // Rows, keys, heads, heads of keys, channels.
        [1, 1, 1, 1, 8],
        [17, 17, 3, 1, 16],
        [1, 65, 7, 7, 64],
        [129, 127, 2, 2, 128],
        [200, 333, 6, 3, 72],
        [333, 333, 5, 5, 128],
        [70, 70, 4, 2, 96],
        [40, 24, 3, 3, 20],
        [600, 600, 8, 1, 64],
        [50, 50, 2, 2, 160],
    ];
    for [rows, keys, heads, kv_heads, head_dim] in sizes {
        for dtype in FLOATS {
            for causal in [false, true].into_iter().filter(|causal| !causal || rows == keys) {
                let shape = [keys, kv_heads, head_dim];
                let inputs =
                    vec![floats(dtype, &[rows, heads, head_dim]), floats(dtype, &shape), floats(dtype, &shape)];
                let label = format!(
                    "{rows} by {keys}, {heads}/{kv_heads} heads of {head_dim}, {dtype}{}",
                    if causal { ", causal" } else { "" }
                );
                let output = fresh(dtype, &[rows, heads * head_dim]);
                cases.push(Case {
                    tolerance: tolerance(dtype),
                    ..case(Operation::Attention { causal }, label, inputs, output)
                });
            }
        }
    }
    for dtype in FLOATS {
        let (rows, heads, head_dim) = (150, 7, 128);
        let inputs = vec![floats(dtype, &[rows, heads * 3 * head_dim])];
        let output = fresh(dtype, &[rows, heads * head_dim]);
        let operation = Operation::JointAttention { heads };
        let label = format!("parts of one projection, {dtype}");
        cases.push(Case { tolerance: tolerance(dtype), ..case(operation, label, inputs, output) });
    }
    cases
}

fn elementwise() -> Vec<Case> {
    let mut cases = Vec::new();
    let types = [(F32, F32), (BF16, BF16), (F16, F16), (BF16, F32), (F32, BF16)];
    for [rows, width] in [[1, 3], [17, 65], [130, 1001], [33, 2056]] {
        let shape = [rows, width];
        for (x, y) in types {
            let label = format!("{rows} x {width}, {x} to {y}");
            for activation in [Activation::Silu, Activation::Gelu, Activation::GeluTanh] {
                let label = format!("{label}, {activation:?}");
                cases.push(case(Operation::Activate(activation), label, vec![floats(x, &shape)], fresh(y, &shape)));
            }
            cases.push(case(Operation::Add, &*label, vec![floats(x, &shape)], changed(y, &shape)));
            cases.push(case(Operation::Multiply, &*label, vec![floats(x, &shape)], changed(y, &shape)));
            for order in [GateOrder::GateFirst, GateOrder::UpFirst] {
                let label = format!("{label}, {order:?}");
                let inputs = vec![floats(x, &[rows, 2 * width])];
                cases.push(case(Operation::Swiglu(order), label, inputs, fresh(y, &shape)));
            }
            for gate in [x, F32] {
                for picks in [false, true] {
                    let label = format!("{label}, gate {gate}, picks {picks}");
                    let rows = Given::Picks { count: rows, below: 3 };
                    let inputs = vec![floats(x, &shape), floats(gate, &[3, width]), rows];
                    cases.push(case(Operation::GatedAdd { picks }, label, inputs, changed(y, &shape)));
                }
            }
        }
        for dtype in FLOATS {
            cases.push(case(
                Operation::Scale,
                format!("{rows} x {width}, {dtype}"),
                Vec::new(),
                changed(dtype, &shape),
            ));
            let label = format!("{rows} x {width}, {dtype}");
            cases.push(case(Operation::EulerStep, label, vec![floats(dtype, &shape)], changed(F32, &shape)));
        }
    }
    cases
}

fn convolutions() -> Vec<Case> {
    let mut cases = Vec::new();
    for ([batch, c_in, n], [c_out, taps], shape) in [
        ([1, 1, 1], [1, 1], [0, 1, 1]),
        ([2, 5, 33], [7, 7], [3, 1, 1]),
        ([1, 3, 50], [4, 4], [1, 2, 1]),
        ([2, 16, 300], [24, 7], [9, 1, 3]),
        ([1, 8, 29], [8, 5], [0, 3, 2]),
    ] {
        let [padding, stride, dilation] = shape;
        let shape = Conv1dShape { padding, stride, dilation };
        let outputs = (n + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
        for biased in [false, true] {
            let mut inputs = vec![floats(F32, &[c_out, c_in, taps]), floats(F32, &[batch, c_in, n])];
            inputs.extend(biased.then(|| floats(F32, &[c_out])));
            let label = format!("[{batch}, {c_in}, {n}] to {c_out}, {taps} taps, {shape:?}, bias {biased}");
            cases.push(case(Operation::Conv1d(shape), label, inputs, fresh(F32, &[batch, c_out, outputs])));
        }
    }
    for ([batch, c_in, n], [c_out, taps], [padding, stride]) in [
        ([1, 1, 1], [1, 2], [0, 2]),
        ([2, 5, 33], [3, 8], [2, 4]),
        ([1, 16, 20], [7, 16], [4, 8]),
        ([1, 4, 9], [4, 3], [0, 3]),
    ] {
        let shape = Conv1dShape { padding, stride, dilation: 1 };
        let outputs = (n - 1) * stride + taps - 2 * padding;
        for biased in [false, true] {
            let mut inputs = vec![floats(F32, &[c_in, c_out, taps]), floats(F32, &[batch, c_in, n])];
            inputs.extend(biased.then(|| floats(F32, &[c_out])));
            let label = format!("[{batch}, {c_in}, {n}] to {c_out}, {taps} taps by {stride}, bias {biased}");
            cases.push(case(Operation::ConvTranspose1d(shape), label, inputs, fresh(F32, &[batch, c_out, outputs])));
        }
    }
    let wide = CausalConv3dShape {
        kernel: KernelSize { time: 2, side: 3 },
        stride: Stride { time: 3, side: 1 },
        padding: ReflectPadding { before: 1, after: 0 },
    };
    for (c_in, [frames, height, width], c_out, shape) in [
        (1, [1, 2, 2], 1, CausalConv3dShape::SAME),
        (3, [5, 7, 9], 6, CausalConv3dShape::SAME),
        (8, [4, 5, 6], 3, CausalConv3dShape::halving(2)),
        (4, [3, 8, 3], 5, CausalConv3dShape::halving(1)),
        (7, [2, 3, 5], 9, CausalConv3dShape::POINTWISE),
        (2, [8, 6, 5], 4, wide),
        (33, [3, 20, 37], 40, CausalConv3dShape::SAME),
    ] {
        let output = shape.output([frames, height, width]).expect("the sizes of the list can be mirrored");
        for biased in [false, true] {
            let mut inputs =
                vec![floats(F32, &[c_out, c_in, shape.taps()]), floats(F32, &[c_in, frames, height, width])];
            inputs.extend(biased.then(|| floats(F32, &[c_out])));
            let label =
                format!("{c_in} of {frames} x {height} x {width} to {c_out}, {:?}, bias {biased}", shape.kernel);
            let output = fresh(F32, &[c_out, output[0], output[1], output[2]]);
            cases.push(case(Operation::CausalConv3d(shape), label, inputs, output));
        }
    }
    cases
}

fn sound() -> Vec<Case> {
    let mut cases = Vec::new();
    for [batch, channels, samples] in [[1, 1, 1], [2, 3, 17], [1, 5, 256], [2, 4, 1000]] {
        let shape = [batch, channels, samples];
        let label = format!("{shape:?}");
        let inputs = vec![around(2.0, F32, &[channels]), floats(F32, &shape)];
        cases.push(case(Operation::Snake, &*label, inputs, fresh(F32, &shape)));
        for taps in [4, 12] {
            let inputs = vec![
                floats(F32, &[taps]),
                floats(F32, &[taps]),
                floats(F32, &[channels]),
                floats(F32, &[channels]),
                floats(F32, &shape),
            ];
            cases.push(case(Operation::AliasFreeSnake, format!("{label}, {taps} taps"), inputs, fresh(F32, &shape)));
        }
    }
    // Sines of large arguments, in another library.
    cases.iter_mut().for_each(|case| case.tolerance = Tolerance::RelativeRms(5e-6));
    cases
}

fn pixels() -> Vec<Case> {
    let mut cases = Vec::new();
    for (x, y) in [(F32, F32), (BF16, BF16), (F16, F16), (F32, F16)] {
        let (grid, [pt, ph, pw], channels) = ([3, 2, 5], [4, 3, 2], 3);
        let tokens: usize = grid.iter().product();
        for (first_frame, frames) in [(0, 12), (3, 7)] {
            let inputs = vec![floats(x, &[tokens, channels * pt * ph * pw])];
            let output = fresh(y, &[channels, frames, grid[1] * ph, grid[2] * pw]);
            let label = format!("frames {first_frame} to {}, {x} to {y}", first_frame + frames);
            cases.push(case(Operation::Unpatchify { grid, first_frame }, label, inputs, output));
        }
        let shape = [3, 4, 5, 7];
        for (axis, extent) in [(1, 4), (2, 9), (3, 7)] {
            let label = format!("axis {axis} of {shape:?} over {extent}, {x} to {y}");
            let operation = Operation::CrossFade { axis, extent };
            cases.push(case(operation, label, vec![floats(x, &shape)], changed(y, &shape)));
        }
        // A level at a tie may fall to either side.
        let levels = Tolerance::Levels { most: 1, share: 0.01 };
        let output = fresh(DType::U8, &[3, 5, 7, 3]);
        let inputs = vec![floats(x, &[3, 3, 5, 7])];
        cases.push(Case { tolerance: levels, ..case(Operation::PixelsToRgb8, format!("{x}"), inputs, output) });
    }
    cases
}
