//! A denoising state as bytes, and back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{DenoiseCheckpoint, Identity, ResumeError};
use crate::checkpoint::{HeaderEntry, StoredDtype, parse_bytes};
use crate::hex::hex;

/// The version of the format that this build writes, and the only one that it reads.
const VERSION: u32 = 2;

/// More bytes than the header of a checkpoint has, and the most that is read of one.
const HEADER_BYTES: usize = 4096;

const VIDEO_ROWS: &str = "video_rows";
const AUDIO_ROWS: &str = "audio_rows";

const FORMAT_VERSION: &str = "format_version";
const STEP: &str = "step";
const SPEC: &str = "spec_sha256";
const MEDIA: &str = "media_sha256";
const ENGINE: &str = "engine_fingerprint";
const STATE: &str = "state_sha256";

/// The shapes of a specification's latent rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowShapes {
    /// `[rows, 4 · channels]`.
    pub(crate) video: [usize; 2],
    /// `[2 · audio_latents, channels]`.
    pub(crate) audio: [usize; 2],
}

impl RowShapes {
    fn bytes(&self) -> usize {
        let elements = |[rows, width]: [usize; 2]| rows.saturating_mul(width);
        elements(self.video).saturating_add(elements(self.audio)).saturating_mul(4)
    }
}

/// A denoising state on the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SavedRows {
    /// How many steps are done.
    pub(crate) step: usize,
    /// The target's video rows.
    pub(crate) video: Vec<f32>,
    /// The target's audio rows.
    pub(crate) audio: Vec<f32>,
}

impl SavedRows {
    /// Writes the state as a checkpoint.
    pub(crate) fn encode(&self, shapes: RowShapes, identity: &Identity) -> DenoiseCheckpoint {
        let mut data = Vec::with_capacity(shapes.bytes());
        let mut header = Map::new();
        let tensors = [(VIDEO_ROWS, shapes.video, &self.video), (AUDIO_ROWS, shapes.audio, &self.audio)];
        for (name, shape, values) in tensors {
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
            header.insert(name.to_owned(), entry);
        }
        let metadata = json!({
            FORMAT_VERSION: VERSION.to_string(),
            STEP: self.step.to_string(),
            SPEC: identity.spec,
            MEDIA: identity.media,
            ENGINE: identity.engine,
            STATE: digest(self.step, &data),
        });
        header.insert("__metadata__".to_owned(), metadata);
        let mut header = Value::Object(header).to_string();
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        let mut bytes = Vec::with_capacity(8 + header.len() + data.len());
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.append(&mut data);
        DenoiseCheckpoint { step: self.step, bytes }
    }

    /// Reads a state that belongs to `identity`, after any of `total` steps. Whatever the bytes say, no more memory is
    /// taken than a state of these shapes needs.
    pub(crate) fn decode(
        bytes: &[u8],
        shapes: RowShapes,
        identity: &Identity,
        total: usize,
    ) -> Result<Self, ResumeError> {
        let most = shapes.bytes().saturating_add(8 + HEADER_BYTES);
        if bytes.len() > most {
            return Err(ResumeError::TooLong { bytes: bytes.len(), most });
        }
        let (header, tensors) = parse_bytes(bytes, HEADER_BYTES as u64).map_err(ResumeError::Malformed)?;
        let data = &bytes[8 + header.len()..];
        let header: Header =
            serde_json::from_slice(header).map_err(|_| ResumeError::Metadata { key: "__metadata__" })?;
        let text = |key: &'static str| header.metadata.get(key).ok_or(ResumeError::Metadata { key });
        let version: u32 = text(FORMAT_VERSION)?.parse().map_err(|_| ResumeError::Metadata { key: FORMAT_VERSION })?;
        if version != VERSION {
            return Err(ResumeError::Version { found: version, known: VERSION });
        }
        if *text(SPEC)? != identity.spec {
            return Err(ResumeError::ForeignSpec);
        }
        if *text(MEDIA)? != identity.media {
            return Err(ResumeError::ForeignMedia);
        }
        let engine = text(ENGINE)?;
        if engine.len() != identity.engine.len() || !engine.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ResumeError::Metadata { key: ENGINE });
        }
        if *engine != identity.engine {
            return Err(ResumeError::ForeignEngine { found: engine.clone(), own: identity.engine.clone() });
        }
        let step = text(STEP)?.parse().map_err(|_| ResumeError::Metadata { key: STEP })?;
        if !(1..=total).contains(&step) {
            return Err(ResumeError::Step { step, total });
        }
        let named = text(STATE)?;
        let video = found(&tensors, VIDEO_ROWS, shapes.video)?;
        let audio = found(&tensors, AUDIO_ROWS, shapes.audio)?;
        if tensors.len() != 2 {
            return Err(ResumeError::Tensors { found: tensors.len(), expected: 2 });
        }
        if digest(step, data) != *named {
            return Err(ResumeError::Digest);
        }
        let finite = |entry: &HeaderEntry, tensor| {
            let values =
                bytes[entry.range.clone()].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let values: Vec<f32> = values.collect();
            let finite = values.iter().all(|value| value.is_finite());
            if finite { Ok(values) } else { Err(ResumeError::NotFinite { tensor }) }
        };
        Ok(Self { step, video: finite(video, VIDEO_ROWS)?, audio: finite(audio, AUDIO_ROWS)? })
    }
}

/// The SHA-256 of a step and its data: what the other metadata are compared with is known without the file.
pub(super) fn digest(step: usize, data: &[u8]) -> String {
    hex(&Sha256::new().chain_update((step as u64).to_le_bytes()).chain_update(data).finalize())
}

/// What a header says beside its tensors.
#[derive(Deserialize)]
struct Header {
    #[serde(rename = "__metadata__")]
    metadata: BTreeMap<String, String>,
}

/// Finds a tensor, if it is F32 of the given shape.
fn found<'a>(
    tensors: &'a [HeaderEntry],
    name: &'static str,
    expected: [usize; 2],
) -> Result<&'a HeaderEntry, ResumeError> {
    let tensor = tensors.iter().find(|tensor| tensor.name == name).ok_or(ResumeError::Missing { tensor: name })?;
    if tensor.dtype != StoredDtype::F32 {
        return Err(ResumeError::Dtype { tensor: name, found: tensor.dtype });
    }
    if tensor.shape != expected {
        return Err(ResumeError::Shape { tensor: name, expected, found: tensor.shape.clone() });
    }
    Ok(tensor)
}
