//! Why a sweep did not do its work.

use clapboard_jobs::{BlobError, DispatchError, StoreError};

/// What a sweep could not reach; it is tried again with the next one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dispatcher.
    #[error(transparent)]
    Dispatch(#[from] DispatchError),
    /// The media store.
    #[error(transparent)]
    Blob(#[from] BlobError),
}
