//! Memory-mapped safetensors files.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::{bf16, f16};
use memmap2::{Advice, Mmap};

use super::component::ComponentId;
use super::dtype::StoredDtype;
use super::error::Error;
use super::header::read_header;
use crate::files;

/// One tensor of a mapped file; cloning it copies pointers, not data.
#[derive(Clone)]
pub struct RawTensor {
    name: Arc<str>,
    dtype: StoredDtype,
    shape: Arc<[usize]>,
    shard: Arc<Shard>,
    range: Range<usize>,
}

/// A mapped file, kept alive by its tensors.
struct Shard {
    path: PathBuf,
    map: Mmap,
}

/// A tensor that lies in a mapping: its name, type, shape and bytes.
pub(super) struct Placed {
    pub(super) name: String,
    pub(super) dtype: StoredDtype,
    pub(super) shape: Vec<usize>,
    pub(super) range: Range<usize>,
}

/// Returns the tensors that lie in `map`, which is known as `path`.
pub(super) fn tensors_in(map: Mmap, path: &Path, placed: Vec<Placed>) -> BTreeMap<String, RawTensor> {
    let shard = Arc::new(Shard { path: path.to_owned(), map });
    let tensor = |Placed { name, dtype, shape, range }: Placed| {
        let shard = Arc::clone(&shard);
        (name.clone(), RawTensor { name: name.into(), dtype, shape: shape.into(), shard, range })
    };
    placed.into_iter().map(tensor).collect()
}

impl RawTensor {
    /// Returns the name under which the tensor is stored.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the stored element type.
    pub fn dtype(&self) -> StoredDtype {
        self.dtype
    }

    /// Returns the stored shape, row major.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the file that holds the tensor.
    pub fn path(&self) -> &Path {
        &self.shard.path
    }

    /// Returns where the data lies in [`path`](Self::path).
    pub fn file_range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns the little-endian values, row major, aligned to the element size; pages are read when touched.
    pub fn bytes(&self) -> &[u8] {
        &self.shard.map[self.range.clone()]
    }

    /// Calls `read` with the values while a touched page comes without the megabytes around it: for those who look at
    /// little of a tensor.
    pub(crate) fn scattered<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        let advise = |advice| {
            // Only a hint: without it more is read.
            if let Err(error) = self.shard.map.advise(advice) {
                tracing::debug!(file = %self.shard.path.display(), %error, "the mapping took no advice");
            }
        };
        advise(Advice::Random);
        let result = read(self.bytes());
        advise(Advice::Normal);
        result
    }

    /// Returns how many elements the tensor has.
    pub fn elements(&self) -> usize {
        self.range.len() / self.dtype.size()
    }

    /// Appends the values, widened to F32, to `out`; `None` when the tensor does not hold F32, BF16 or F16.
    pub fn append_f32(&self, out: &mut Vec<f32>) -> Option<()> {
        self.append_f32_of(0..self.elements(), out)
    }

    /// Appends the values of `elements`, as [`append_f32`](Self::append_f32) does.
    ///
    /// Panics: When there are not so many.
    pub(crate) fn append_f32_of(&self, elements: Range<usize>, out: &mut Vec<f32>) -> Option<()> {
        let size = self.dtype.size();
        let bytes = &self.bytes()[elements.start * size..elements.end * size];
        let pairs = bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
        match self.dtype {
            StoredDtype::F32 => out.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            StoredDtype::BF16 => out.extend(pairs.map(|b| bf16::from_le_bytes(b).to_f32())),
            StoredDtype::F16 => out.extend(pairs.map(|b| f16::from_le_bytes(b).to_f32())),
            _ => return None,
        }
        Some(())
    }
}

impl std::fmt::Debug for RawTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}{:?} in {}", self.name, self.dtype, self.shape, self.shard.path.display())
    }
}

/// Maps one safetensors file and returns its tensors in data order.
///
/// Errors: [`Error::File`] when it is no regular file, [`Error::Shard`] when the header or the file's length is wrong,
/// naming file and tensor.
pub fn map_file(path: &Path) -> Result<Vec<RawTensor>, Error> {
    let mut file = files::open(path).map_err(Error::file(path))?;
    let entries = read_header(&mut file, path)?;
    // SAFETY: the mapping is read-only, and its length was read from the same open file. A checkpoint must not be
    // rewritten in place while it is open (docs say so; replacing files by rename is fine, since the mapping keeps the
    // old inode). Bytes are only ever read as plain integers and floats, for which every bit pattern is valid.
    let map =
        unsafe { Mmap::map(&file) }.map_err(|source| Error::Io { doing: "map", path: path.to_owned(), source })?;
    let shard = Arc::new(Shard { path: path.to_owned(), map });
    let tensor = |entry: super::header::HeaderEntry| RawTensor {
        name: entry.name.into(),
        dtype: entry.dtype,
        shape: entry.shape.into(),
        shard: Arc::clone(&shard),
        range: entry.range,
    };
    Ok(entries.into_iter().map(tensor).collect())
}

/// Maps every `*.safetensors` file of a folder, whatever the shards are called.
///
/// Errors: [`Error::NoShards`] when there is none, [`Error::TwiceStored`] when two files hold one name.
pub(super) fn map_folder(component: ComponentId, folder: &Path) -> Result<BTreeMap<String, RawTensor>, Error> {
    let io = |source| Error::Io { doing: "list", path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "safetensors") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::NoShards { component, path: folder.to_owned() });
    }
    let mut tensors: BTreeMap<String, RawTensor> = BTreeMap::new();
    for file in &files {
        for tensor in map_file(file)? {
            if let Some(first) = tensors.get(tensor.name()) {
                return Err(Error::TwiceStored {
                    component,
                    tensor: tensor.name().to_owned(),
                    first: first.path().to_owned(),
                    second: file.clone(),
                });
            }
            tensors.insert(tensor.name().to_owned(), tensor);
        }
    }
    Ok(tensors)
}
