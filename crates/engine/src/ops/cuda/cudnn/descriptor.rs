//! Descriptors of cuDNN's backend API: made, given attributes, sealed, destroyed.

use std::ffi::{CStr, c_void};

use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnBackendHeurMode_t, cudnnDataType_t, cudnnHandle_t, cudnnPointwiseMode_t,
    cudnnReduceTensorOp_t, cudnnStatus_t,
};

use crate::ops::cuda::error::CudaError;

/// Turns a status into a result with the library's own words.
pub(super) fn check(doing: &'static str, status: cudnnStatus_t) -> Result<(), CudaError> {
    if status == cudnnStatus_t::CUDNN_STATUS_SUCCESS {
        return Ok(());
    }
    let mut text = [0u8; 1024];
    // SAFETY: the library writes a string that ends within the buffer.
    unsafe { sys::cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    let words = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
    Err(CudaError::cudnn(doing, status, words.trim()))
}

/// Values of an attribute, of a type that the library knows; it refuses an attribute that is of another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values<'a> {
    Numbers(&'a [i64]),
    Booleans(&'a [bool]),
    DataTypes(&'a [cudnnDataType_t]),
    /// Addresses of the GPU's memory or, of values that the host gives, of the host's.
    Addresses(&'a [u64]),
    Handle(&'a cudnnHandle_t),
    Heuristic(&'a cudnnBackendHeurMode_t),
    Pointwise(&'a cudnnPointwiseMode_t),
    Reduction(&'a cudnnReduceTensorOp_t),
    /// Descriptors, which have to be there as long as whatever they are a part of.
    Descriptors(&'a [cudnnBackendDescriptor_t]),
}

impl Values<'_> {
    /// Their type, how many there are, and where.
    fn parts(&self) -> (cudnnBackendAttributeType_t, usize, *const c_void) {
        use cudnnBackendAttributeType_t::*;
        // `bool` has one byte, as the library's has; addresses are its pointers.
        const { assert!(size_of::<u64>() == size_of::<*const c_void>()) };
        match *self {
            Values::Numbers(values) => (CUDNN_TYPE_INT64, values.len(), values.as_ptr().cast()),
            Values::Booleans(values) => (CUDNN_TYPE_BOOLEAN, values.len(), values.as_ptr().cast()),
            Values::DataTypes(values) => (CUDNN_TYPE_DATA_TYPE, values.len(), values.as_ptr().cast()),
            Values::Addresses(values) => (CUDNN_TYPE_VOID_PTR, values.len(), values.as_ptr().cast()),
            Values::Handle(value) => (CUDNN_TYPE_HANDLE, 1, std::ptr::from_ref(value).cast()),
            Values::Heuristic(value) => (CUDNN_TYPE_HEUR_MODE, 1, std::ptr::from_ref(value).cast()),
            Values::Pointwise(value) => (CUDNN_TYPE_POINTWISE_MODE, 1, std::ptr::from_ref(value).cast()),
            Values::Reduction(value) => (CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, std::ptr::from_ref(value).cast()),
            Values::Descriptors(values) => (CUDNN_TYPE_BACKEND_DESCRIPTOR, values.len(), values.as_ptr().cast()),
        }
    }
}

/// One descriptor. It holds nothing that runs: what of a plan does, [`Cudnn`](super::Cudnn) waits for before it drops one.
pub(super) struct Descriptor(cudnnBackendDescriptor_t);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is valid and destroyed once; a failure leaks a few bytes of the host.
        unsafe { sys::cudnnBackendDestroyDescriptor(self.0) };
    }
}

impl Descriptor {
    /// Makes an empty one.
    pub(super) fn new(kind: cudnnBackendDescriptorType_t) -> Result<Self, CudaError> {
        let mut made = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        let status = unsafe { sys::cudnnBackendCreateDescriptor(kind, &raw mut made) };
        check("making a descriptor", status)?;
        Ok(Self(made))
    }

    /// Sets an attribute to `values`.
    pub(super) fn set(&self, name: cudnnBackendAttributeName_t, values: Values<'_>) -> Result<(), CudaError> {
        let (kind, count, place) = values.parts();
        // SAFETY: the descriptor is valid; the library reads as many values of the type as it is told, and copies them.
        let status = unsafe { sys::cudnnBackendSetAttribute(self.0, name, kind, count as i64, place) };
        check("describing attention", status)
    }

    /// Sets an attribute to other descriptors.
    pub(super) fn set_descriptors(
        &self,
        name: cudnnBackendAttributeName_t,
        descriptors: &[&Descriptor],
    ) -> Result<(), CudaError> {
        let pointers: Vec<_> = descriptors.iter().map(|descriptor| descriptor.0).collect();
        self.set(name, Values::Descriptors(&pointers))
    }

    /// Seals it.
    pub(super) fn sealed(self) -> Result<Self, CudaError> {
        // SAFETY: the descriptor is valid.
        check("planning attention", unsafe { sys::cudnnBackendFinalize(self.0) })?;
        Ok(self)
    }

    /// Reads an attribute that is one 64-bit number.
    pub(super) fn number(&self, name: cudnnBackendAttributeName_t) -> Result<i64, CudaError> {
        let (mut value, mut count) = (0i64, 0i64);
        let kind = cudnnBackendAttributeType_t::CUDNN_TYPE_INT64;
        let to: *mut c_void = std::ptr::from_mut(&mut value).cast();
        // SAFETY: the descriptor is valid; at most one number is written.
        let status = unsafe { sys::cudnnBackendGetAttribute(self.0, name, kind, 1, &raw mut count, to) };
        check("asking for a size", status)?;
        Ok(value)
    }

    /// Reads an attribute that is a list of descriptors of `kind`.
    pub(super) fn list(
        &self,
        name: cudnnBackendAttributeName_t,
        kind: cudnnBackendDescriptorType_t,
    ) -> Result<Vec<Descriptor>, CudaError> {
        let of = cudnnBackendAttributeType_t::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let (mut there, mut written) = (0i64, 0i64);
        // SAFETY: the descriptor is valid; only a count is written.
        let status =
            unsafe { sys::cudnnBackendGetAttribute(self.0, name, of, 0, &raw mut there, std::ptr::null_mut()) };
        check("asking for engines", status)?;
        let mut made = (0..there).map(|_| Descriptor::new(kind)).collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = made.iter().map(|descriptor| descriptor.0).collect();
        let to: *mut c_void = pointers.as_mut_ptr().cast();
        // SAFETY: the list holds as many descriptors as are asked for, each of which is filled.
        let status = unsafe { sys::cudnnBackendGetAttribute(self.0, name, of, there, &raw mut written, to) };
        check("asking for engines", status)?;
        made.truncate(usize::try_from(written).unwrap_or(0));
        Ok(made)
    }

    /// The library's own handle, for executing.
    pub(super) fn raw(&self) -> cudnnBackendDescriptor_t {
        self.0
    }
}
