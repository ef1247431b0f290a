//! Descriptors of cuDNN's backend API: made, given attributes, sealed, destroyed.

use std::ffi::{CStr, c_void};

use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, cudnnBackendDescriptor_t,
    cudnnBackendDescriptorType_t, cudnnStatus_t,
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
    Err(CudaError::Cudnn { doing, status: format!("{status:?} {}", words.trim()) })
}

/// One descriptor.
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

    /// Sets an attribute to `values`, which must be of its type.
    pub(super) fn set<V>(
        &self,
        name: cudnnBackendAttributeName_t,
        kind: cudnnBackendAttributeType_t,
        values: &[V],
    ) -> Result<(), CudaError> {
        // SAFETY: the descriptor is valid; the library reads as many values as it is told, and copies them.
        let status =
            unsafe { sys::cudnnBackendSetAttribute(self.0, name, kind, values.len() as i64, values.as_ptr().cast()) };
        check("describing attention", status)
    }

    /// Sets an attribute to other descriptors.
    pub(super) fn set_descriptors(
        &self,
        name: cudnnBackendAttributeName_t,
        descriptors: &[&Descriptor],
    ) -> Result<(), CudaError> {
        let pointers: Vec<_> = descriptors.iter().map(|descriptor| descriptor.0).collect();
        self.set(name, cudnnBackendAttributeType_t::CUDNN_TYPE_BACKEND_DESCRIPTOR, &pointers)
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
