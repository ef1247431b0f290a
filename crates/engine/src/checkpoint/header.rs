//! Safetensors headers: parsed and checked before a single data byte is read.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::dtype::StoredDtype;
use super::error::{Error, ShardProblem};

/// The largest header that is read into memory; the format's own limit.
const HEADER_LIMIT: u64 = 100_000_000;

/// One tensor as its header describes it, checked against the file's length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderEntry {
    pub(crate) name: String,
    pub(crate) dtype: StoredDtype,
    pub(crate) shape: Vec<usize>,
    /// Bytes of the file, the header included.
    pub(crate) range: Range<usize>,
}

/// Reads and checks the header of an open safetensors file.
///
/// Guarantees for every returned entry: the range lies inside the file, has exactly the bytes of its shape, begins at a
/// multiple of the element size, and shares no byte with another tensor; together they cover all data bytes.
pub(super) fn read_header(file: &mut File, path: &Path) -> Result<Vec<HeaderEntry>, Error> {
    let io = |source| Error::Io { doing: "read", path: path.to_owned(), source };
    let shard = |problem| Error::Shard { path: path.to_owned(), problem };
    let length = file.metadata().map_err(io)?.len();
    if length < 10 {
        return Err(shard(ShardProblem::TooShort { length }));
    }
    let mut prefix = [0; 8];
    file.read_exact(&mut prefix).map_err(io)?;
    let header = u64::from_le_bytes(prefix);
    if header > length - 8 {
        return Err(shard(ShardProblem::HeaderTooLong { header, length }));
    }
    if header > HEADER_LIMIT {
        return Err(shard(ShardProblem::HeaderOverLimit { header, limit: HEADER_LIMIT }));
    }
    let mut text = Vec::new();
    file.take(header).read_to_end(&mut text).map_err(io)?;
    parse(&text, 8 + header, length).map_err(shard)
}

/// Checks the header of a safetensors file in memory, of at most `limit` bytes, and returns its text along with its
/// tensors; the guarantees are those of [`read_header`].
pub(crate) fn parse_bytes(bytes: &[u8], limit: u64) -> Result<(&[u8], Vec<HeaderEntry>), ShardProblem> {
    let length = bytes.len() as u64;
    let Some((prefix, rest)) = bytes.split_first_chunk() else {
        return Err(ShardProblem::TooShort { length });
    };
    let header = u64::from_le_bytes(*prefix);
    if header > limit {
        return Err(ShardProblem::HeaderOverLimit { header, limit });
    }
    let text = usize::try_from(header).ok().and_then(|header| rest.get(..header));
    let text = text.ok_or(ShardProblem::HeaderTooLong { header, length })?;
    Ok((text, parse(text, 8 + header, length)?))
}

/// Checks a header's text; `data_start` and `length` are byte positions in the file.
fn parse(text: &[u8], data_start: u64, length: u64) -> Result<Vec<HeaderEntry>, ShardProblem> {
    let raw: RawHeader = serde_json::from_slice(text).map_err(|e| ShardProblem::BadHeader { reason: e.to_string() })?;
    let mut names = HashSet::new();
    let mut entries = Vec::with_capacity(raw.0.len());
    for (name, value) in raw.0 {
        if !names.insert(name.clone()) {
            return Err(ShardProblem::Twice { tensor: name });
        }
        entries.push(entry(name, value, data_start, length)?);
    }
    entries.sort_by_key(|entry| (entry.range.start, entry.range.end));
    let mut position = to_usize(data_start);
    let mut previous: Option<&HeaderEntry> = None;
    for entry in &entries {
        if let Some(first) = previous.filter(|first| entry.range.start < first.range.end) {
            return Err(ShardProblem::Overlap { first: first.name.clone(), second: entry.name.clone() });
        }
        if entry.range.start > position {
            let place = format!("before tensor {}", entry.name);
            return Err(ShardProblem::Unclaimed { bytes: (entry.range.start - position) as u64, place });
        }
        position = entry.range.end;
        previous = Some(entry);
    }
    if position as u64 != length {
        let place = "at the end of the file".to_owned();
        return Err(ShardProblem::Unclaimed { bytes: length - position as u64, place });
    }
    Ok(entries)
}

/// Checks one tensor's entry.
fn entry(name: String, value: serde_json::Value, data_start: u64, length: u64) -> Result<HeaderEntry, ShardProblem> {
    let raw: RawEntry = match serde_json::from_value(value) {
        Ok(raw) => raw,
        Err(e) => return Err(ShardProblem::BadEntry { tensor: name, reason: e.to_string() }),
    };
    let Some(dtype) = StoredDtype::from_name(&raw.dtype) else {
        return Err(ShardProblem::UnknownDtype { tensor: name, dtype: raw.dtype });
    };
    let [begin, end] = raw.data_offsets;
    if begin > end {
        let reason = format!("data_offsets run backwards: {begin} to {end}");
        return Err(ShardProblem::BadEntry { tensor: name, reason });
    }
    let available = length - data_start;
    if end > available {
        return Err(ShardProblem::Truncated { tensor: name, end, available });
    }
    let needed = raw.shape.iter().try_fold(dtype.size() as u64, |size, &dim| size.checked_mul(dim));
    let shape: Option<Vec<usize>> = raw.shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let (Some(needed), Some(shape)) = (needed, shape) else {
        return Err(ShardProblem::ImpossibleShape { tensor: name, shape: raw.shape });
    };
    if needed != end - begin {
        return Err(ShardProblem::SizeMismatch { tensor: name, shape, needed, stored: end - begin });
    }
    let offset = data_start + begin;
    if needed > 0 && !offset.is_multiple_of(dtype.size() as u64) {
        return Err(ShardProblem::Misaligned { tensor: name, offset, size: dtype.size() });
    }
    Ok(HeaderEntry { name, dtype, shape, range: to_usize(offset)..to_usize(data_start + end) })
}

/// Narrows a position inside a file that is about to be mapped.
fn to_usize(position: u64) -> usize {
    usize::try_from(position).expect("weights are mapped only on 64-bit machines")
}

/// The header's tensors in file order; JSON maps would silently keep only the last of two equal names.
struct RawHeader(Vec<(String, serde_json::Value)>);

#[derive(Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.push((name, map.next_value()?));
                    }
                }
                Ok(RawHeader(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(header: &str, data: u64) -> Result<Vec<HeaderEntry>, ShardProblem> {
        let start = 8 + header.len() as u64;
        parse(header.as_bytes(), start, start + data)
    }

    fn padded(header: &str) -> String {
        format!("{header}{}", " ".repeat(header.len().next_multiple_of(8) - header.len()))
    }

    #[test]
    fn entries_come_back_in_data_order_with_file_ranges() {
        let header = padded(
            r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#,
        );
        let entries = parsed(&header, 12).unwrap();
        let start = 8 + header.len();
        assert_eq!(entries[0].name, "a");
        assert_eq!(entries[0].range, start..start + 8);
        assert_eq!((entries[1].name.as_str(), entries[1].dtype), ("b", StoredDtype::BF16));
    }

    #[test]
    fn each_damage_is_named_with_its_tensor() {
        let one = |dtype: &str, shape: &str, offsets: &str| {
            padded(&format!(r#"{{"w":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#))
        };
        let tensor = "w".to_owned();
        let cases = [
            (
                one("F32", "[4]", "[0,16]"),
                12,
                ShardProblem::Truncated { tensor: tensor.clone(), end: 16, available: 12 },
            ),
            (
                one("F32", "[3]", "[0,16]"),
                16,
                ShardProblem::SizeMismatch { tensor: tensor.clone(), shape: vec![3], needed: 12, stored: 16 },
            ),
            (one("F7", "[4]", "[0,16]"), 16, ShardProblem::UnknownDtype { tensor: tensor.clone(), dtype: "F7".into() }),
            (
                one("F32", "[9223372036854775807,8]", "[0,16]"),
                16,
                ShardProblem::ImpossibleShape { tensor: tensor.clone(), shape: vec![9_223_372_036_854_775_807, 8] },
            ),
            (
                one("F32", "[4]", "[0,16]"),
                20,
                ShardProblem::Unclaimed { bytes: 4, place: "at the end of the file".into() },
            ),
            (one("F32", "[3]", "[4,16]"), 16, ShardProblem::Unclaimed { bytes: 4, place: "before tensor w".into() }),
        ];
        for (header, data, problem) in cases {
            assert_eq!(parsed(&header, data).unwrap_err(), problem);
        }
        let backwards = parsed(&one("F32", "[4]", "[16,0]"), 16).unwrap_err();
        assert!(backwards.to_string().contains("data_offsets run backwards"), "{backwards}");
        let negative = parsed(&one("F32", "[-4]", "[0,16]"), 16).unwrap_err();
        assert!(matches!(&negative, ShardProblem::BadEntry { tensor, .. } if tensor == "w"), "{negative}");
    }

    #[test]
    fn shared_bytes_and_repeated_names_are_refused() {
        let overlap = padded(
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
        );
        let expected = ShardProblem::Overlap { first: "a".into(), second: "b".into() };
        assert_eq!(parsed(&overlap, 12).unwrap_err(), expected);
        let twice = padded(
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
        );
        assert_eq!(parsed(&twice, 8).unwrap_err(), ShardProblem::Twice { tensor: "a".into() });
    }

    #[test]
    fn data_that_cannot_be_read_in_place_is_refused() {
        let mut header = r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#.to_owned();
        while header.len().is_multiple_of(4) {
            header.push(' ');
        }
        let problem = parsed(&header, 4).unwrap_err();
        assert!(matches!(problem, ShardProblem::Misaligned { size: 4, .. }), "{problem}");
    }

    #[test]
    fn a_header_that_is_no_object_is_refused() {
        for text in ["[1,2]", "{\"w\":", "\u{0}\u{0}", "{\"w\":3}"] {
            assert!(parsed(text, 0).is_err(), "{text}");
        }
    }
}
