//! A block's tensors, cut into the copies that bring them.

use std::ops::Range;

use crate::checkpoint::RawTensor;
use crate::ops::{DType, Passage};

/// One copy into a slot.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) piece: RawTensor,
    /// Which bytes of the piece.
    pub(super) range: Range<usize>,
    pub(super) how: How,
    /// Where they go, in bytes from the slot's beginning.
    pub(super) offset: usize,
}

/// How bytes get to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It copies them from where they lie.
    Direct,
    /// Through a buffer of its own.
    Staged,
    /// The same, converted there.
    Converted(DType, DType),
}

impl Step {
    /// Returns how many bytes arrive.
    pub(super) fn arriving(&self) -> usize {
        match self.how {
            How::Direct | How::Staged => self.range.len(),
            How::Converted(from, to) => self.range.len() / from.size() * to.size(),
        }
    }
}

/// Cuts `passages` into steps, in order. Of a piece that is not converted, `direct` says which bytes the GPU can copy as
/// they lie; all others go in parts of at most `chunk` bytes.
pub(super) fn steps_of(
    passages: &[Passage],
    chunk: usize,
    direct: impl Fn(&RawTensor) -> Option<Range<usize>>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for passage in passages {
        let mut offset = passage.offset;
        for piece in &passage.stored.pieces {
            let (from, to) = (passage.stored_dtype, passage.dtype);
            let mut add = |range: Range<usize>, how| {
                let step = Step { piece: piece.clone(), range, how, offset };
                offset += step.arriving();
                steps.push(step);
            };
            let bytes = piece.file_range().len();
            if from != to {
                let elements = chunk / from.size().max(to.size());
                parts(0..bytes, elements * from.size()).for_each(|part| add(part, How::Converted(from, to)));
                continue;
            }
            let middle = direct(piece).unwrap_or(bytes..bytes);
            parts(0..middle.start, chunk).for_each(|part| add(part, How::Staged));
            if !middle.is_empty() {
                add(middle.clone(), How::Direct);
            }
            parts(middle.end..bytes, chunk).for_each(|part| add(part, How::Staged));
        }
    }
    steps
}

/// Cuts a range into parts of `most` and a last one.
fn parts(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(most).map(move |start| start..(start + most).min(range.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Stored;
    use crate::checkpoint::tests::tiny_dit_tensors;

    /// The tensors of a tiny transformer, one after another.
    fn passages(dtype: Option<DType>) -> Vec<Passage> {
        let mut offset = 0;
        let place = |stored: &Stored| {
            let passage = Passage::new(stored, dtype, offset).unwrap();
            offset += passage.bytes();
            passage
        };
        tiny_dit_tensors().iter().map(place).collect()
    }

    /// Every byte of every tensor arrives once, at its place.
    fn arrives_whole(passages: &[Passage], steps: &[Step]) {
        let mut next = 0;
        for step in steps {
            assert_eq!(step.offset, next);
            next += step.arriving();
        }
        assert_eq!(next, passages.iter().map(Passage::bytes).sum::<usize>());
    }

    #[test]
    fn steps_cover_every_tensor_whatever_their_size() {
        for dtype in [None, Some(DType::F32), Some(DType::Bf16)] {
            let passages = passages(dtype);
            for chunk in [60, 4096, 1 << 20] {
                let steps = steps_of(&passages, chunk, |_| None);
                arrives_whole(&passages, &steps);
                assert!(steps.iter().all(|step| step.arriving().max(step.range.len()) <= chunk), "{chunk}");
            }
        }
    }

    #[test]
    fn what_can_be_copied_as_it_lies_is_one_step_between_its_ragged_ends() {
        let passages = passages(None);
        let middle = |piece: &RawTensor| {
            let bytes = piece.file_range().len();
            (bytes > 16).then_some(4..bytes - 4)
        };
        let steps = steps_of(&passages, 1 << 20, middle);
        arrives_whole(&passages, &steps);
        let direct = steps.iter().filter(|step| step.how == How::Direct).count();
        let pieces = passages.iter().flat_map(|passage| &passage.stored.pieces);
        let long = pieces.filter(|piece| piece.bytes().len() > 16).count();
        assert!(direct == long && direct > 0);
    }
}
