//! What only a GPU can show, beside results: that it refuses what it must, and keeps a weight once.

use super::OperationOptions;
use crate::device::{Backend, Device};
use crate::load::LoadError;
use crate::ops::cuda::{Cuda, CudaError, Fault, fault};
use crate::ops::{DType, OpError, Ops};
use crate::verify::golden::Error;

/// Looks whether operands of another queue are refused, and whether a GPU that has no room says so and goes on.
///
/// Errors: [`Error::Run`] naming what was not refused.
pub(super) fn refusals(options: &OperationOptions, ops: &Cuda) -> Result<(), Error> {
    let failed = |what: &str, source: Box<dyn std::error::Error + Send + Sync>| Error::Run {
        case: format!("refusal: {what}"),
        source,
    };
    let of_op = |what: &'static str| move |error: OpError| failed(what, error.into());

    const FOREIGN: &str = "an operand of another queue";
    let ordinal = Device::Cuda(ops.gpu().ordinal);
    let other = Backend::open(ordinal, options.attention, super::BOUNDS).map_err(LoadError::Device)?;
    let Backend::Cuda(other) = other else { return Err(Error::NoGpu) };
    let ours = ops.alloc(DType::F32, [2, 3].into()).map_err(of_op(FOREIGN))?;
    let mut theirs = other.alloc(DType::F32, [2, 3].into()).map_err(of_op(FOREIGN))?;
    match ops.add(ours.view(), theirs.view_mut()) {
        Err(OpError::Backend { source, .. }) if matches!(source.downcast_ref(), Some(CudaError::Foreign)) => {}
        Err(error) => return Err(failed(FOREIGN, error.into())),
        Ok(()) => return Err(failed(FOREIGN, "it was taken".into())),
    }
    drop((theirs, other));

    const FULL: &str = "more memory than there is";
    match ops.alloc(DType::U8, [2 * ops.gpu().memory_bytes].into()) {
        Err(error) if fault(&error) == Some(Fault::OutOfMemory) => {}
        Err(error) => return Err(failed(FULL, error.into())),
        Ok(_) => return Err(failed(FULL, "it was given".into())),
    }
    // The one before was dropped with all that was its own, and this one has refused twice: it must compute as before.
    let mut y = ops.alloc(DType::F32, [2, 3].into()).map_err(of_op(FULL))?;
    ops.write(&[1.0; 6], y.view_mut()).map_err(of_op(FULL))?;
    ops.add(ours.view(), y.view_mut()).map_err(of_op(FULL))?;
    match ops.read(y.view()).map_err(of_op(FULL))?.as_slice() {
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0] => Ok(()),
        other => Err(failed(FULL, format!("a sum after it is {other:?}").into())),
    }
}
