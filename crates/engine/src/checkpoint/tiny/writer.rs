//! Writing safetensors files, the same bytes every time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::error::Error;
use super::recipe::Tensor;
use crate::checkpoint::dtype::StoredDtype;

/// A tensor as a header describes it.
pub(super) struct Described<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: StoredDtype,
    pub(super) shape: &'a [usize],
}

/// Makes the beginning of a file, up to its data, and tells how many bytes of data follow.
///
/// The data are in the given order; wide element types must come first, so that every tensor is aligned. The header is
/// padded with spaces to a multiple of 8 bytes.
pub(super) fn header(tensors: &[Described<'_>]) -> (Vec<u8>, u64) {
    let mut text = json!({ "format": "pt" }).to_string();
    text.insert_str(0, "{\"__metadata__\":");
    let mut offset = 0_u64;
    for tensor in tensors {
        let elements: u64 = tensor.shape.iter().map(|&dim| dim as u64).product();
        let end = offset + elements * tensor.dtype.size() as u64;
        let name = Value::from(tensor.name);
        let (dtype, shape) = (Value::from(tensor.dtype.as_str()), Value::from(tensor.shape));
        text += &format!(r#",{name}:{{"dtype":{dtype},"shape":{shape},"data_offsets":[{offset},{end}]}}"#);
        offset = end;
    }
    text.push('}');
    text += &" ".repeat(text.len().next_multiple_of(8) - text.len());
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    (bytes, offset)
}

/// Writes tensors into one file, wide element types first, then by name.
pub(super) fn write(path: &Path, tensors: &[(&str, &Tensor)]) -> Result<(), Error> {
    let mut ordered = tensors.to_vec();
    ordered.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype.size()), *name));
    let describe = |(name, tensor): &(&'_ str, &'_ Tensor)| (name.to_string(), tensor.dtype, tensor.shape.clone());
    let owned: Vec<_> = ordered.iter().map(describe).collect();
    let described: Vec<_> = owned.iter().map(|(name, dtype, shape)| Described { name, dtype: *dtype, shape }).collect();
    let (head, _) = header(&described);
    let mut file = BufWriter::new(File::create(path).map_err(Error::io("create", path))?);
    let data = ordered.iter().map(|(_, tensor)| tensor.bytes.as_slice());
    for bytes in std::iter::once(head.as_slice()).chain(data) {
        file.write_all(bytes).map_err(Error::io("write", path))?;
    }
    file.flush().map_err(Error::io("write", path))
}
