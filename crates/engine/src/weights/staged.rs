//! A network that is on the device always, or only while it is used.

use std::ops::Deref;

use super::Placement;
use crate::load::{LoadError, Loading};
use crate::ops::Ops;

type Load<O, T> = Box<dyn Fn(&O, Loading<'_>) -> Result<T, LoadError> + Send + Sync>;

/// A network `T`, or how to bring it in.
pub(crate) enum Staged<O, T> {
    Kept(T),
    PerUse(Load<O, T>),
}

impl<O: Ops, T> Staged<O, T> {
    /// Brings the network in, and lets it go again if that is its placement: what is missing is found now, and not by a
    /// generation.
    ///
    /// Errors: what `load` says; [`LoadError::Stopped`].
    pub(crate) fn load(
        ops: &O,
        loading: Loading<'_>,
        load: impl Fn(&O, Loading<'_>) -> Result<T, LoadError> + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        let network = loading.then(load(ops, loading))?;
        Ok(match loading.placement {
            Placement::Resident => Self::Kept(network),
            Placement::Modules | Placement::Layers { .. } => Self::PerUse(Box::new(load)),
        })
    }

    /// Lends the network; one that is not kept leaves with the guard.
    ///
    /// Errors: [`LoadError`] when it cannot be brought in, or the run is stopped meanwhile.
    pub(crate) fn enter(&self, ops: &O, loading: Loading<'_>) -> Result<StagedGuard<'_, T>, LoadError> {
        Ok(match self {
            Self::Kept(network) => StagedGuard::Kept(network),
            Self::PerUse(load) => StagedGuard::Brought(Box::new(load(ops, loading)?)),
        })
    }
}

/// A network while it is used.
pub(crate) enum StagedGuard<'a, T> {
    Kept(&'a T),
    Brought(Box<T>),
}

impl<T> Deref for StagedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Kept(network) => network,
            Self::Brought(network) => network,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ops::cpu::Cpu;
    use crate::weights::ResidentLayers;

    #[test]
    fn a_network_is_kept_or_leaves_with_its_guard() {
        let ops = Cpu::new(1);
        let layers = Placement::Layers { resident: ResidentLayers::Fixed(3) };
        for (placement, kept) in [(Placement::Resident, true), (Placement::Modules, false), (layers, false)] {
            let network = Arc::new(());
            let held = Arc::downgrade(&network);
            let load = move |_: &Cpu, _: Loading<'_>| Ok(Arc::clone(&network));
            let loading = Loading::unwatched(placement);
            let staged = Staged::load(&ops, loading, load).unwrap();
            // The loader holds one, and so does whoever has the network.
            let before = held.strong_count();
            let guard = staged.enter(&ops, loading).unwrap();
            assert_eq!(held.strong_count(), if kept { before } else { before + 1 }, "{placement:?}");
            drop(guard);
            assert_eq!(held.strong_count(), before, "{placement:?}");
        }
    }
}
