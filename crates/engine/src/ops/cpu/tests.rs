//! The CPU operations against plain arithmetic.

use half::bf16;

use super::{Cpu, HostBuffer};
use crate::checkpoint::{Stored, StoredDtype};
use crate::ops::{Activation, DType, Dims, GateOrder, OpError, Ops, Rotary, Tensor};

fn ops() -> Cpu {
    Cpu::new(1 << 20)
}

fn tensor(dtype: DType, shape: &[usize], values: impl Fn(usize) -> f32) -> Tensor<HostBuffer> {
    let dims = Dims::new(shape);
    let mut tensor = ops().alloc(dtype, dims).unwrap();
    let values: Vec<f32> = (0..dims.elements()).map(values).collect();
    ops().write(&values, tensor.view_mut()).unwrap();
    tensor
}

fn wave(i: usize) -> f32 {
    (i as f32 * 0.7).sin()
}

#[test]
fn a_linear_rounds_its_weights_to_the_inputs_type_and_its_sum_once() {
    let x = tensor(DType::Bf16, &[1, 1], |_| 1.0);
    let w = tensor(DType::F32, &[1, 1], |_| 1.003);
    let bias = tensor(DType::F32, &[1], |_| 0.001);
    let mut y = tensor(DType::F32, &[1, 1], |_| 0.0);
    ops().linear(w.view(), Some(bias.view()), x.view(), y.view_mut()).unwrap();
    let expected = bf16::from_f32(1.003).to_f32() + bf16::from_f32(0.001).to_f32();
    assert_eq!(ops().read(y.view()).unwrap(), [expected]);
}

#[test]
fn a_linear_writes_into_columns_of_a_wider_output() {
    let x = tensor(DType::F32, &[2, 3], wave);
    let w = tensor(DType::F32, &[2, 3], |i| wave(i + 9));
    let mut y = tensor(DType::F32, &[2, 5], |_| 7.0);
    ops().linear(w.view(), None, x.view(), y.view_mut().narrow(1, 1..3)).unwrap();
    let values = ops().read(y.view()).unwrap();
    for row in 0..2 {
        assert_eq!([values[row * 5], values[row * 5 + 3], values[row * 5 + 4]], [7.0; 3]);
        for column in 0..2 {
            let sum: f32 = (0..3).map(|k| wave(row * 3 + k) * wave(column * 3 + k + 9)).sum();
            assert!((values[row * 5 + 1 + column] - sum).abs() < 1e-6);
        }
    }
}

#[test]
fn memory_that_no_machine_has_and_weights_of_too_many_axes_are_refused() {
    let error = ops().alloc(DType::F32, [1 << 40, 1 << 40].into()).unwrap_err();
    assert!(matches!(error, OpError::Backend { op: "alloc", .. }), "{error}");
    let stored = Stored { dtype: StoredDtype::F32, shape: vec![1; 5], pieces: Vec::new() };
    let error = ops().weight(&stored).unwrap_err();
    assert!(matches!(error, OpError::Shape { op: "weight", .. }), "{error}");
}

#[test]
fn the_byte_bound_of_attention_changes_no_result() {
    let (q, k) = (tensor(DType::F32, &[9, 4, 8], wave), tensor(DType::F32, &[9, 2, 8], |i| wave(i + 3)));
    let v = tensor(DType::F32, &[9, 2, 8], |i| wave(i + 5));
    let run = |bytes: usize, causal: bool| {
        let ops = Cpu::new(bytes);
        let mut y = ops.alloc(DType::F32, [9, 32].into()).unwrap();
        ops.attention(q.view(), k.view(), v.view(), 0.35, causal, y.view_mut()).unwrap();
        ops.read(y.view()).unwrap()
    };
    let whole = run(1 << 20, false);
    let by_rows = run(1, false);
    let difference = whole.iter().zip(&by_rows).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(difference < 1e-6, "{difference}");
    // The first row of causal attention sees one key: its output is that key's value.
    let first = &run(1 << 20, true)[..8];
    assert!(first.iter().zip(ops().read(v.view()).unwrap()).all(|(y, v)| (y - v).abs() < 1e-6));
}

#[test]
fn gate_order_says_which_half_is_activated() {
    let x = tensor(DType::F32, &[1, 2], |i| [1.0, 3.0][i]);
    let silu = |x: f32| x / (1.0 + (-x).exp());
    for (order, expected) in [(GateOrder::GateFirst, silu(1.0) * 3.0), (GateOrder::UpFirst, silu(3.0) * 1.0)] {
        let mut y = tensor(DType::F32, &[1, 1], |_| 0.0);
        ops().swiglu(x.view(), order, y.view_mut()).unwrap();
        assert_eq!(ops().read(y.view()).unwrap(), [expected]);
    }
}

#[test]
fn wrong_shapes_and_indices_are_named() {
    let (x, w) = (tensor(DType::F32, &[2, 3], wave), tensor(DType::F32, &[4, 5], wave));
    let mut y = tensor(DType::F32, &[2, 4], wave);
    let error = ops().linear(w.view(), None, x.view(), y.view_mut()).unwrap_err();
    assert_eq!(error.to_string(), "linear: x has shape [2, 3], expected [2, 5]");
    let indices = ops().indices(&[0, 2]).unwrap();
    let mut picked = tensor(DType::F32, &[2, 3], wave);
    let error = ops().gather_rows(x.view(), indices.view(), picked.view_mut()).unwrap_err();
    assert!(matches!(error, OpError::Index { index: 2, rows: 2, .. }));
}

#[test]
fn scattered_rows_come_back_gathered() {
    let x = tensor(DType::F32, &[3, 2], wave);
    let indices = ops().indices(&[4, 0, 2]).unwrap();
    let mut packed = tensor(DType::F32, &[5, 2], |_| 0.0);
    ops().scatter_rows(x.view(), indices.view(), packed.view_mut()).unwrap();
    let mut back = tensor(DType::F32, &[3, 2], |_| 0.0);
    ops().gather_rows(packed.view(), indices.view(), back.view_mut()).unwrap();
    assert_eq!(ops().read(back.view()).unwrap(), ops().read(x.view()).unwrap());
}

#[test]
fn a_mixed_row_is_the_weighted_sum_of_its_taps() {
    let table = tensor(DType::Bf16, &[3, 2], |i| i as f32);
    let indices = ops().indices(&[2, 0, 1, 1]).unwrap();
    let weights = tensor(DType::F32, &[2, 2], |i| [0.25, 0.75, 1.0, 2.0][i]);
    let mut y = tensor(DType::F32, &[2, 2], |_| 9.0);
    ops().mix_rows(table.view(), indices.view(), weights.view(), y.view_mut()).unwrap();
    assert_eq!(ops().read(y.view()).unwrap(), [1.0, 2.0, 6.0, 9.0]);
    let outside = ops().indices(&[2, 0, 1, 3]).unwrap();
    let error = ops().mix_rows(table.view(), outside.view(), weights.view(), y.view_mut()).unwrap_err();
    assert!(matches!(error, OpError::Index { op: "mix_rows", index: 3, rows: 3 }), "{error}");
}

#[test]
fn a_rotation_without_a_norm_keeps_lengths_and_rounds_once() {
    // A quarter turn of both pairs of one head.
    let (cos, sin) = (tensor(DType::F32, &[1, 4], |_| 0.0), tensor(DType::F32, &[1, 4], |_| 1.0));
    let mut x = tensor(DType::F32, &[1, 1, 5], |i| i as f32 + 1.0);
    let rotary = Rotary { cos: cos.view(), sin: sin.view() };
    ops().rotate_heads(rotary, x.view_mut()).unwrap();
    assert_eq!(ops().read(x.view()).unwrap(), [-3.0, -4.0, 1.0, 2.0, 5.0]);

    let (cos, sin) = (tensor(DType::F32, &[1, 2], |_| 0.6), tensor(DType::F32, &[1, 2], |_| 0.8));
    let mut x = tensor(DType::Bf16, &[1, 1, 2], |_| 1.0);
    ops().rotate_heads(Rotary { cos: cos.view(), sin: sin.view() }, x.view_mut()).unwrap();
    let expected = [0.6f32 - 0.8, 0.6 + 0.8].map(|value| bf16::from_f32(value).to_f32());
    assert_eq!(ops().read(x.view()).unwrap(), expected);
}

#[test]
fn both_forms_of_gelu_have_their_own_values() {
    let x = tensor(DType::F32, &[1, 4], |i| [-3.0, 0.0, 0.5, 2.0][i]);
    for (activation, expected) in [
        (Activation::Gelu, [-0.004_049_69, 0.0, 0.345_731_2, 1.954_499_7]),
        (Activation::GeluTanh, [-0.003_637_39, 0.0, 0.345_714, 1.954_597_7]),
    ] {
        let mut y = tensor(DType::F32, &[1, 4], |_| 9.0);
        ops().activate(activation, x.view(), y.view_mut()).unwrap();
        for (value, expected) in ops().read(y.view()).unwrap().into_iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{activation:?}: {value}, expected {expected}");
        }
    }
}

#[test]
fn a_product_is_taken_element_by_element_and_rounded_once() {
    let x = tensor(DType::F32, &[2, 3], |i| i as f32 + 0.5);
    let mut y = tensor(DType::Bf16, &[2, 3], |i| 3.0 - i as f32);
    ops().multiply(x.view(), y.view_mut()).unwrap();
    let expected = |i: usize| bf16::from_f32((i as f32 + 0.5) * (3.0 - i as f32)).to_f32();
    assert_eq!(ops().read(y.view()).unwrap(), (0..6).map(expected).collect::<Vec<_>>());
    let wide = tensor(DType::F32, &[2, 4], wave);
    let error = ops().multiply(wide.view(), y.view_mut()).unwrap_err();
    assert!(matches!(error, OpError::Shape { op: "multiply", .. }), "{error}");
}
