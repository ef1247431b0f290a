//! The CPU operations against plain arithmetic.

use half::bf16;

use super::{Cpu, HostBuffer};
use crate::checkpoint::{Stored, StoredDtype};
use crate::ops::{DType, Dims, GateOrder, OpError, Ops, Tensor};

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
