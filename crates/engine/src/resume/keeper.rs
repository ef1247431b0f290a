//! Hands a generation's states to whoever keeps them.

use super::{CheckpointSink, Identity, RowShapes, SavedRows};

/// Hands states to a sink, none of them twice.
pub(crate) struct Keeper<'a> {
    identity: Identity,
    shapes: RowShapes,
    sink: &'a mut dyn CheckpointSink,
    /// The last step of which somebody has the state: it was resumed from, or kept.
    known: usize,
}

impl<'a> Keeper<'a> {
    /// Begins after `resumed_at` steps, whose state is known.
    pub(crate) fn new(
        identity: Identity,
        shapes: RowShapes,
        resumed_at: Option<usize>,
        sink: &'a mut dyn CheckpointSink,
    ) -> Self {
        Self { identity, shapes, sink, known: resumed_at.unwrap_or(0) }
    }

    /// Asks whether the state after `step` of `total` steps is wanted.
    pub(crate) fn wants(&mut self, step: usize, total: usize) -> bool {
        self.sink.wants(step, total)
    }

    /// Tells whether nobody has the state after `step` steps yet.
    pub(crate) fn lacks(&self, step: usize) -> bool {
        step > self.known
    }

    /// Hands over a state.
    pub(crate) fn keep(&mut self, rows: &SavedRows) {
        self.known = rows.step;
        self.sink.keep(rows.encode(self.shapes, &self.identity));
    }
}
