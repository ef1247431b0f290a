//! The table of token embeddings, which stays on the host: a prompt has few of its rows.

use super::weights::STORED;
use crate::checkpoint::{Component, RawTensor, StoredDtype};
use crate::load::LoadError;
use crate::ops::{DType, OpError, Ops, ViewMut};

/// A checkpoint's table, of which rows are read when they are asked for.
pub(super) struct TokenEmbeddings {
    table: RawTensor,
    rows: usize,
    width: usize,
}

impl TokenEmbeddings {
    /// Takes the table `name`, `[rows, width]`.
    ///
    /// Errors: [`LoadError::Checkpoint`] when it is missing or of another shape.
    pub(super) fn load(component: &Component, name: &str, [rows, width]: [usize; 2]) -> Result<Self, LoadError> {
        let stored = component.expect(name, &[rows, width], &STORED)?;
        let [table] = <[RawTensor; 1]>::try_from(stored.pieces).expect("no layout splits this tensor");
        Ok(Self { table, rows, width })
    }

    /// Writes the rows of `ids` into `y`, `[ids, width]`, one after another, rounding to its type.
    ///
    /// Errors: [`OpError::Index`] for a token that the table does not have; [`OpError`] when the device fails.
    pub(super) fn gather<O: Ops>(&self, ops: &O, ids: &[u32], y: ViewMut<'_, O::Buffer>) -> Result<(), OpError> {
        if let Some(&id) = ids.iter().find(|id| **id as usize >= self.rows) {
            return Err(OpError::Index { op: "token_embeddings", index: id as usize, rows: self.rows });
        }
        let elements = |id: &u32| *id as usize * self.width..(*id as usize + 1) * self.width;
        if (self.table.dtype(), y.dtype()) == (StoredDtype::BF16, DType::Bf16) {
            let size = DType::Bf16.size();
            let rows = ids.iter().map(elements).map(|row| &self.table.bytes()[row.start * size..row.end * size]);
            return ops.write_bytes(&rows.collect::<Vec<_>>().concat(), y);
        }
        let mut values = Vec::with_capacity(ids.len() * self.width);
        for row in ids.iter().map(elements) {
            self.table.append_f32_of(row, &mut values).expect("the table was taken as floats");
        }
        ops.write(&values, y)
    }
}
