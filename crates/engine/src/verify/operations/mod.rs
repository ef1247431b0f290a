//! Every operation of a device against its twin on the processor.
//!
//! Inputs are drawn anew from a seed that is told; outputs hold what is no number before, so that an element nobody
//! writes shows; sizes are awkward: one row, 17 rows, odd numbers of heads, lengths that no tile divides.

mod case;
mod draw;
mod gpu;
mod list;

use self::case::{Case, Given};
use self::draw::Draw;
use super::compare::Comparison;
use super::golden::Error;
use super::report::{Line, Place, Report, Summary};
use crate::device::{Backend, Device, HostBounds};
use crate::load::LoadError;
use crate::ops::cpu::Cpu;
use crate::ops::cuda::{AttentionChoice, CudaError};
use crate::ops::{DType, OpError, Ops, Tensor};

/// Scores that the twin's attention holds at a time.
const BOUNDS: HostBounds = HostBounds { attention_bytes: 64 << 20, masters_bytes: 0 };

/// What to compare.
#[derive(Debug, Clone, Copy)]
pub struct OperationOptions {
    /// What computes beside the processor.
    pub device: Device,
    /// Which attention computes in 16-bit types on a GPU.
    pub attention: AttentionChoice,
    /// What inputs are drawn from.
    pub seed: u64,
}

/// Runs every operation on the device and on the processor; `opened` hears first what computes, then `listener` each
/// operation as it is compared. Attention that cuDNN does not take, where it alone may compute, counts as unknown.
///
/// Errors: [`Error::NoGpu`] when the processor would be compared with itself; [`Error`] when the device cannot be used or
/// an operation fails. Results that differ are a failed line.
pub fn run_operations(
    options: &OperationOptions,
    opened: &mut dyn FnMut(&str),
    listener: &mut dyn FnMut(Line),
) -> Result<Summary, Error> {
    let backend = Backend::open(options.device, options.attention, BOUNDS).map_err(LoadError::Device)?;
    opened(&backend.describe());
    match backend {
        Backend::Cpu(_) => Err(Error::NoGpu),
        Backend::Cuda(ops) => {
            let summary = compare_all(&*ops, options.seed, listener)?;
            gpu::refusals(options, &ops)?;
            Ok(summary)
        }
    }
}

fn compare_all<O: Ops>(ops: &O, seed: u64, listener: &mut dyn FnMut(Line)) -> Result<Summary, Error> {
    let twin = Cpu::new(BOUNDS.attention_bytes);
    let mut report = Report::new(listener);
    for (index, case) in list::cases().into_iter().enumerate() {
        let place = Place::new(case.operation.name(), None);
        let failed =
            |source: OpError| Error::Run { case: format!("{} {}", place.case, case.label), source: source.into() };
        // Each case draws from a seed of its own, so that one can be looked at without the others.
        let drawn = Drawn::of(&case, &mut Draw::new(seed.wrapping_add(index as u64)));
        let ours = match drawn.run(ops, &case) {
            Err(error) if is_refused(&error) => {
                report.unknown(&place, &case.label);
                continue;
            }
            ours => ours.map_err(failed)?,
        };
        let expected = drawn.run(&twin, &case).map_err(failed)?;
        report.compared(&place, &case.label, case.tolerance, comparison(&case, &ours, &expected));
    }
    Ok(report.summary)
}

/// Tells whether cuDNN, where it alone may compute, does not take an attention.
fn is_refused(error: &OpError) -> bool {
    let OpError::Backend { source, .. } = error else { return false };
    matches!(source.downcast_ref(), Some(CudaError::Unsupported { .. }))
}

/// What an operation left in its output: all of the buffer, what lies beside the view included.
enum Left {
    Floats(Vec<f32>),
    Bytes(Vec<u8>),
}

fn comparison(case: &Case, ours: &Left, expected: &Left) -> Comparison {
    match (ours, expected) {
        (Left::Floats(ours), Left::Floats(expected)) => case.tolerance.floats(ours, expected),
        (Left::Bytes(ours), Left::Bytes(expected)) => case.tolerance.bytes(ours, expected),
        _ => Comparison::hopeless(),
    }
}

/// Values of one case, the same for both.
struct Drawn {
    inputs: Vec<Values>,
    output: Vec<f32>,
}

enum Values {
    Floats(Vec<f32>),
    Indices(Vec<u32>),
}

impl Drawn {
    fn of(case: &Case, draw: &mut Draw) -> Self {
        let inputs = case.inputs.iter().map(|given| match given {
            Given::Floats { shape, around, .. } => Values::Floats(draw.floats(shape.iter().product(), *around)),
            Given::Picks { count, below } => Values::Indices(draw.picks(*count, *below)),
            Given::Places { count, below } => Values::Indices(draw.places(*count, *below)),
        });
        let inputs = inputs.collect();
        let elements: usize = case.output.shape.iter().product();
        let mut output = draw.floats(elements, 0.0);
        if case.output.is_fresh {
            let poison = case.output.is_written();
            output.iter_mut().zip(poison).for_each(|(value, written)| {
                if written {
                    *value = f32::NAN;
                }
            });
        }
        Self { inputs, output }
    }

    /// Runs the case on one backend and reads everything that its output's buffer holds afterwards.
    fn run<O: Ops>(&self, ops: &O, case: &Case) -> Result<Left, OpError> {
        let mut inputs = Vec::new();
        for (given, values) in case.inputs.iter().zip(&self.inputs) {
            inputs.push(match (given, values) {
                (Given::Floats { dtype, shape, .. }, Values::Floats(values)) => upload(ops, *dtype, shape, values)?,
                (_, Values::Indices(values)) => ops.indices(values)?,
                (_, Values::Floats(values)) => upload(ops, DType::F32, &[values.len()], values)?,
            });
        }
        let shape = case.output.shape.as_slice();
        if case.output.dtype == DType::U8 {
            let mut y = ops.alloc(DType::U8, shape.into())?;
            case.run(ops, &inputs, y.view_mut())?;
            return Ok(Left::Bytes(ops.read_bytes(y.view())?));
        }
        let mut y = upload(ops, case.output.dtype, shape, &self.output)?;
        let mut view = y.view_mut();
        if let Some((axis, range)) = &case.output.window {
            view = view.narrow(*axis, range.clone());
        }
        case.run(ops, &inputs, view)?;
        Ok(Left::Floats(ops.read(y.view())?))
    }
}

fn upload<O: Ops>(ops: &O, dtype: DType, shape: &[usize], values: &[f32]) -> Result<Tensor<O::Buffer>, OpError> {
    let mut tensor = ops.alloc(dtype, shape.into())?;
    ops.write(values, tensor.view_mut())?;
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_agrees_with_itself_and_every_operation_is_there() {
        let mut lines = Vec::new();
        let summary = compare_all(&Cpu::new(BOUNDS.attention_bytes), 7, &mut |line| lines.push(line)).unwrap();
        assert_eq!(summary.failed, 0, "{lines:?}");
        let mut operations: Vec<&str> = lines.iter().map(|line| line.case.as_str()).collect();
        operations.sort_unstable();
        operations.dedup();
        // All of the trait but those that every other one uses: alloc, weight, weight_in, write, indices, read, read_bytes, write_bytes.
        assert_eq!(operations.len(), 28, "{operations:?}");
    }

    #[test]
    fn the_processor_is_not_compared_with_itself_in_a_gpus_stead() {
        let options = OperationOptions { device: Device::Cpu, attention: AttentionChoice::Auto, seed: 7 };
        let mut opened = Vec::new();
        let error = run_operations(&options, &mut |what| opened.push(what.to_owned()), &mut |line| panic!("{line:?}"))
            .unwrap_err();
        assert!(matches!(error, Error::NoGpu), "{error}");
        assert_eq!(opened, ["the processor"]);
    }

    #[test]
    fn an_attention_that_cudnn_does_not_take_is_told_from_one_that_fails() {
        let of = |source: CudaError| OpError::Backend { op: "attention", source: Box::new(source) };
        let status = || "as it says".to_owned();
        assert!(is_refused(&of(CudaError::Unsupported { doing: "computing attention", status: status() })));
        assert!(!is_refused(&of(CudaError::Cudnn { doing: "computing attention", status: status() })));
    }

    #[test]
    fn an_element_that_nobody_writes_shows() {
        let case = &list::cases()[0];
        let drawn = Drawn::of(case, &mut Draw::new(1));
        assert!(drawn.output.iter().any(|value| value.is_nan()));
        let left = Left::Floats(drawn.output.clone());
        let whole = drawn.run::<Cpu>(&Cpu::new(1 << 20), case).unwrap();
        assert!(!comparison(case, &left, &whole).passed);
    }
}
