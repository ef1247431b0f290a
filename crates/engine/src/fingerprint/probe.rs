//! The bits of a few computations.
//!
//! They cover what the results depend on and no version number tells: the C library's functions, and how the backend
//! sums a product. How deep a sum is blocked depends on the first-level cache, so one product is deep enough to show it.

use std::hint::black_box;

use super::transcript::Transcript;
use crate::ops::{Conv1dShape, DType, GateOrder, Modulation, NormRounding, OpError, Ops, Tensor};

/// Arguments of each function.
const ARGUMENTS: usize = 4096;

/// Terms of the deepest sum: many blocks of any machine's length, so that lengths that differ cut it differently.
const DEEP: usize = 32_768;

/// Computes and takes note of every bit.
pub(super) fn observe<O: Ops>(ops: &O, transcript: &mut Transcript) -> Result<(), OpError> {
    functions(transcript);
    products(ops, transcript)?;
    attention(ops, transcript)?;
    fused(ops, transcript)?;
    convolution(ops, transcript)
}

/// The functions that activations, tables and noise are made of.
fn functions(transcript: &mut Transcript) {
    let arguments = numbers(1, ARGUMENTS);
    let mut single = |name: &str, function: fn(f32) -> f32| {
        let values: Vec<f32> = arguments.iter().map(|argument| function(black_box(8.0 * argument))).collect();
        transcript.show_floats(name, &values);
    };
    single("exp", f32::exp);
    single("sin", f32::sin);
    single("cos", f32::cos);
    single("ln", |x| x.abs().ln());
    single("powf", |x| 10_000f32.powf(x));
    let mut double = |name: &str, function: fn(f64) -> f64| {
        let values = arguments.iter().map(|argument| function(black_box(8.0 * f64::from(*argument))));
        let bytes: Vec<u8> = values.flat_map(f64::to_le_bytes).collect();
        transcript.show(name, &bytes);
    };
    double("exp f64", f64::exp);
    double("sin f64", f64::sin);
    double("cos f64", f64::cos);
    double("ln f64", |x| x.abs().ln());
    double("ln_1p f64", |x| x.abs().ln_1p());
    double("powf f64", |x| 10_000f64.powf(x));
}

/// Products of few and of many rows, for which backends have different kernels.
fn products<O: Ops>(ops: &O, transcript: &mut Transcript) -> Result<(), OpError> {
    const COLUMNS: usize = 65;
    for (name, dtype, rows, terms) in [
        ("row", DType::F32, 1, 1024),
        ("few rows", DType::F32, 3, 1024),
        ("rows", DType::F32, 65, 1024),
        ("rows in bf16", DType::Bf16, 65, 1024),
        ("rows in f16", DType::F16, 65, 1024),
        ("deep rows", DType::F32, 9, DEEP),
    ] {
        let x = filled(ops, dtype, &[rows, terms], 2)?;
        let w = filled(ops, dtype, &[COLUMNS, terms], 3)?;
        let mut y = ops.alloc(dtype, [rows, COLUMNS].into())?;
        ops.linear(w.view(), None, x.view(), y.view_mut())?;
        transcript.show_floats(name, &ops.read(y.view())?);
    }
    Ok(())
}

fn attention<O: Ops>(ops: &O, transcript: &mut Transcript) -> Result<(), OpError> {
    // The last ones are large enough for the library that computes them in a generation, should there be one.
    for (name, dtype, shape) in [
        ("attention", DType::F32, [70, 2, 32]),
        ("attention in bf16", DType::Bf16, [70, 2, 32]),
        ("much attention in bf16", DType::Bf16, [300, 2, 128]),
        ("much attention in f16", DType::F16, [300, 2, 64]),
    ] {
        let [q, k, v] = [4, 5, 6].map(|seed| filled(ops, dtype, &shape, seed));
        let mut y = ops.alloc(dtype, [shape[0], shape[1] * shape[2]].into())?;
        ops.attention(q?.view(), k?.view(), v?.view(), 0.2, false, y.view_mut())?;
        transcript.show_floats(name, &ops.read(y.view())?);
    }
    Ok(())
}

/// Norms, whose sums backends order as they like, and what stands between products.
fn fused<O: Ops>(ops: &O, transcript: &mut Transcript) -> Result<(), OpError> {
    const ROWS: usize = 5;
    const WIDTH: usize = 1544;
    for (name, dtype) in [("between", DType::F32), ("between in bf16", DType::Bf16)] {
        let (x, weight) = (filled(ops, dtype, &[ROWS, WIDTH], 9)?, filled(ops, dtype, &[WIDTH], 10)?);
        let [shift, scale] = [11, 12].map(|seed| filled(ops, dtype, &[2, WIDTH], seed));
        let (shift, scale, rows) = (shift?, scale?, ops.indices(&[0, 1, 1, 0, 1])?);
        let mut y = ops.alloc(dtype, [ROWS, WIDTH].into())?;
        let mut see = |what: &str, y: &Tensor<O::Buffer>| -> Result<(), OpError> {
            transcript.show_floats(&format!("{what} {name}"), &ops.read(y.view())?);
            Ok(())
        };
        ops.rms_norm(x.view(), weight.view(), 1e-6, NormRounding::Once, y.view_mut())?;
        see("rms norm", &y)?;
        let modulation = Modulation { shift: shift.view(), scale: scale.view(), rows: rows.view() };
        ops.rms_norm_modulate(x.view(), weight.view(), 1e-6, modulation, y.view_mut())?;
        see("modulated norm", &y)?;
        ops.layer_norm(x.view(), weight.view(), shift.view().select(0, 0), 1e-6, y.view_mut())?;
        see("layer norm", &y)?;
        ops.gated_add(x.view(), scale.view(), Some(rows.view()), y.view_mut())?;
        see("gated sum", &y)?;
        let mut half = ops.alloc(dtype, [ROWS, WIDTH / 2].into())?;
        ops.swiglu(x.view(), GateOrder::GateFirst, half.view_mut())?;
        see("swiglu", &half)?;
    }
    Ok(())
}

fn convolution<O: Ops>(ops: &O, transcript: &mut Transcript) -> Result<(), OpError> {
    const SAMPLES: usize = 256;
    let x = filled(ops, DType::F32, &[1, 24, SAMPLES], 7)?;
    let w = filled(ops, DType::F32, &[24, 24, 7], 8)?;
    let mut y = ops.alloc(DType::F32, [1, 24, SAMPLES].into())?;
    ops.conv1d(w.view(), None, Conv1dShape { padding: 3, stride: 1, dilation: 1 }, x.view(), y.view_mut())?;
    transcript.show_floats("convolution", &ops.read(y.view())?);
    Ok(())
}

fn filled<O: Ops>(ops: &O, dtype: DType, shape: &[usize], seed: u32) -> Result<Tensor<O::Buffer>, OpError> {
    let mut tensor = ops.alloc(dtype, shape.into())?;
    ops.write(&numbers(seed, shape.iter().product()), tensor.view_mut())?;
    Ok(tensor)
}

/// Draws numbers between -1 and 1 with all 24 bits in use, so that sums in different orders round differently.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}
