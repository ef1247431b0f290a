//! Elements as they are in memory, without conversion.

use half::{bf16, f16};

use super::buffer::HostBuffer;
use crate::ops::{OpError, View, ViewMut, Window};

/// Checks that a view has no gaps.
fn contiguous(op: &'static str, name: &'static str, window: Window) -> Result<(), OpError> {
    if window.is_contiguous() {
        return Ok(());
    }
    let (expected, actual) =
        (window.shape.contiguous_strides().as_slice().to_vec(), window.strides.as_slice().to_vec());
    Err(OpError::Shape { op, name, expected, actual })
}

pub(super) fn read_bytes(x: View<'_, HostBuffer>) -> Result<Vec<u8>, OpError> {
    const OP: &str = "read_bytes";
    let window = x.window();
    contiguous(OP, "x", window)?;
    let range = window.offset..window.offset + window.shape.elements();
    Ok(match x.buffer {
        HostBuffer::F32(values) => values[range].iter().flat_map(|value| value.to_le_bytes()).collect(),
        HostBuffer::Bf16(values) => values[range].iter().flat_map(|value| value.to_le_bytes()).collect(),
        HostBuffer::F16(values) => values[range].iter().flat_map(|value| value.to_le_bytes()).collect(),
        HostBuffer::U8(values) => values[range].to_vec(),
        HostBuffer::U32(_) | HostBuffer::Mapped { .. } => {
            return Err(OpError::DType { op: OP, name: "x", actual: x.dtype() });
        }
    })
}

pub(super) fn write_bytes(bytes: &[u8], y: ViewMut<'_, HostBuffer>) -> Result<(), OpError> {
    const OP: &str = "write_bytes";
    let (window, dtype) = (y.window(), y.dtype());
    contiguous(OP, "y", window)?;
    let elements = window.shape.elements();
    if bytes.len() != elements * dtype.size() {
        return Err(OpError::Shape {
            op: OP,
            name: "bytes",
            expected: vec![elements * dtype.size()],
            actual: vec![bytes.len()],
        });
    }
    let range = window.offset..window.offset + elements;
    match y.buffer {
        HostBuffer::F32(values) => fill(&mut values[range], bytes, f32::from_le_bytes),
        HostBuffer::Bf16(values) => fill(&mut values[range], bytes, bf16::from_le_bytes),
        HostBuffer::F16(values) => fill(&mut values[range], bytes, f16::from_le_bytes),
        HostBuffer::U8(values) => values[range].copy_from_slice(bytes),
        HostBuffer::U32(_) | HostBuffer::Mapped { .. } => {
            return Err(OpError::DType { op: OP, name: "y", actual: dtype });
        }
    }
    Ok(())
}

fn fill<T, const N: usize>(values: &mut [T], bytes: &[u8], of: impl Fn([u8; N]) -> T) {
    for (value, bytes) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *value = of(*bytes);
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::cpu::Cpu;
    use crate::ops::{DType, OpError, Ops};

    #[test]
    fn bytes_come_back_as_they_went_in_every_type() {
        let ops = Cpu::new(1);
        for dtype in [DType::F32, DType::Bf16, DType::F16, DType::U8] {
            let mut tensor = ops.alloc(dtype, [4, 3].into()).unwrap();
            let bytes: Vec<u8> = (0..6 * dtype.size()).map(|index| index as u8 + 1).collect();
            ops.write_bytes(&bytes, tensor.rows_mut(1..3)).unwrap();
            assert_eq!(ops.read_bytes(tensor.rows(1..3)).unwrap(), bytes, "{dtype}");
            assert!(ops.read_bytes(tensor.rows(3..4)).unwrap().iter().all(|byte| *byte == 0), "{dtype}");
            let error = ops.write_bytes(&bytes, tensor.rows_mut(0..1)).unwrap_err();
            assert!(matches!(error, OpError::Shape { name: "bytes", .. }), "{error}");
            let gaps = ops.read_bytes(tensor.view().narrow(1, 0..2)).unwrap_err();
            assert!(matches!(gaps, OpError::Shape { name: "x", .. }), "{gaps}");
        }
        let indices = ops.indices(&[1, 2]).unwrap();
        assert!(matches!(ops.read_bytes(indices.view()).unwrap_err(), OpError::DType { .. }));
    }
}
