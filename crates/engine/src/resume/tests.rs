//! Checkpoints as bytes: whole ones are read back, everything else is refused by name.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::state::digest;
use super::{Identity, ResumeError, RowShapes, SavedRows};
use crate::checkpoint::{ShardProblem, StoredDtype};

const SHAPES: RowShapes = RowShapes { video: [3, 4], audio: [2, 5] };
const TOTAL: usize = 7;

fn identity() -> Identity {
    Identity { spec: "5".repeat(64), media: "d".repeat(64), engine: "e".repeat(64) }
}

fn rows() -> SavedRows {
    let count = |range: std::ops::Range<i16>| range.map(|i| f32::from(i) / 3.0).collect();
    SavedRows { step: 2, video: count(-6..6), audio: count(10..20) }
}

fn whole() -> Vec<u8> {
    rows().encode(SHAPES, &identity()).bytes
}

fn decode(bytes: &[u8]) -> Result<SavedRows, ResumeError> {
    SavedRows::decode(bytes, SHAPES, &identity(), TOTAL)
}

/// Takes a whole checkpoint apart, lets header and data be changed, and puts it together.
fn edited(edit: impl FnOnce(&mut Value, &mut Vec<u8>)) -> Vec<u8> {
    let bytes = whole();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut data = bytes[8 + length..].to_vec();
    edit(&mut header, &mut data);
    put_together(&header.to_string(), &data)
}

/// Changes a checkpoint so that its digest is right again.
fn changed(change: impl FnOnce(&mut Value, &mut Vec<u8>)) -> Vec<u8> {
    edited(|header, data| {
        change(header, data);
        let step = header["__metadata__"]["step"].as_str().and_then(|step| step.parse().ok());
        if let Some(step) = step {
            header["__metadata__"]["state_sha256"] = digest(step, data).into();
        }
    })
}

fn put_together(header: &str, data: &[u8]) -> Vec<u8> {
    let mut header = header.to_owned();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn with_metadata(key: &str, value: Value) -> Result<SavedRows, ResumeError> {
    decode(&changed(|header, _| header["__metadata__"][key] = value))
}

#[test]
fn a_whole_checkpoint_is_read_back_and_always_has_the_same_bytes() {
    let checkpoint = rows().encode(SHAPES, &identity());
    assert_eq!(checkpoint.step, 2);
    assert_eq!(checkpoint, rows().encode(SHAPES, &identity()));
    assert_eq!(decode(&checkpoint.bytes).unwrap(), rows());
    assert_eq!(decode(&changed(|_, _| ())).unwrap(), rows());
}

#[test]
fn other_readers_understand_a_checkpoint() {
    let bytes = whole();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.len(), 2);
    let video = theirs.tensor("video_rows").unwrap();
    assert_eq!((video.dtype(), video.shape()), (safetensors::Dtype::F32, &[3, 4][..]));
    let values: Vec<u8> = rows().video.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(video.data(), values);
}

#[test]
fn a_checkpoint_of_something_else_is_refused() {
    let refused = with_metadata("spec_sha256", "6".repeat(64).into()).unwrap_err();
    assert!(matches!(refused, ResumeError::ForeignSpec), "{refused}");
    let refused = with_metadata("media_sha256", "c".repeat(64).into()).unwrap_err();
    assert!(matches!(refused, ResumeError::ForeignMedia), "{refused}");
    let refused = with_metadata("engine_fingerprint", "f".repeat(64).into()).unwrap_err();
    assert!(matches!(&refused, ResumeError::ForeignEngine { found, .. } if *found == "f".repeat(64)), "{refused}");
    let refused = with_metadata("format_version", "3".into()).unwrap_err();
    assert!(matches!(refused, ResumeError::Version { found: 3, known: 2 }), "{refused}");
    for step in ["0", "8"] {
        let refused = with_metadata("step", step.into()).unwrap_err();
        assert!(matches!(refused, ResumeError::Step { total: TOTAL, .. }), "{refused}");
    }
    assert_eq!(with_metadata("step", "7".into()).unwrap().step, 7, "after the last step");
}

#[test]
fn metadata_that_cannot_be_used_are_named() {
    for (key, value) in [
        ("step", json!("two")),
        ("step", json!("-1")),
        ("step", json!("99999999999999999999999")),
        ("format_version", json!("")),
        ("engine_fingerprint", json!("\u{1b}[2J")),
    ] {
        let refused = with_metadata(key, value.clone()).unwrap_err();
        assert!(matches!(refused, ResumeError::Metadata { key: named } if named == key), "{key} {value}: {refused}");
    }
    for key in ["format_version", "step", "spec_sha256", "media_sha256", "engine_fingerprint", "state_sha256"] {
        let without = |header: &mut Value, _: &mut Vec<u8>| {
            header["__metadata__"].as_object_mut().unwrap().remove(key).expect("the key was there");
        };
        let refused = decode(&edited(without)).unwrap_err();
        assert!(matches!(refused, ResumeError::Metadata { key: named } if named == key), "{key}: {refused}");
    }
    for metadata in [json!(null), json!([]), json!({ "step": 2 })] {
        let refused = decode(&changed(|header, _| header["__metadata__"] = metadata)).unwrap_err();
        assert!(matches!(refused, ResumeError::Metadata { .. }), "{refused}");
    }
}

#[test]
fn tensors_that_are_not_the_latents_are_refused() {
    let refused = decode(&changed(|header, _| header["video_rows"]["shape"] = json!([4, 3]))).unwrap_err();
    assert!(
        matches!(&refused, ResumeError::Shape { tensor: "video_rows", expected: [3, 4], found } if *found == [4, 3]),
        "{refused}"
    );
    let refused = decode(&changed(|header, _| header["audio_rows"]["shape"] = json!([10]))).unwrap_err();
    assert!(matches!(refused, ResumeError::Shape { tensor: "audio_rows", .. }), "{refused}");
    let refused = decode(&changed(|header, _| header["audio_rows"]["dtype"] = json!("I32"))).unwrap_err();
    let found = StoredDtype::I32;
    assert!(matches!(refused, ResumeError::Dtype { tensor: "audio_rows", found: f } if f == found), "{refused}");
    let renamed = changed(|header, _| {
        let rows = header.as_object_mut().unwrap().remove("audio_rows").unwrap();
        header["other_rows"] = rows;
    });
    let refused = decode(&renamed).unwrap_err();
    assert!(matches!(refused, ResumeError::Missing { tensor: "audio_rows" }), "{refused}");
    let more = changed(|header, data| {
        header["more"] = json!({ "dtype": "F32", "shape": [1], "data_offsets": [data.len(), data.len() + 4] });
        data.extend([0; 4]);
    });
    let refused = decode(&more).unwrap_err();
    assert!(matches!(refused, ResumeError::Tensors { found: 3, expected: 2 }), "{refused}");
}

#[test]
fn data_or_a_step_that_were_not_written_so_are_refused() {
    for bytes in [edited(|_, data| data[0] ^= 1), edited(|header, _| header["__metadata__"]["step"] = "3".into())] {
        let refused = decode(&bytes).unwrap_err();
        assert!(matches!(refused, ResumeError::Digest), "{refused}");
    }
}

#[test]
fn values_that_are_not_finite_are_refused() {
    for (place, tensor) in [(0, "video_rows"), (3 * 4 * 4, "audio_rows")] {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let bytes = changed(|_, data| data[place..place + 4].copy_from_slice(&value.to_le_bytes()));
            let refused = decode(&bytes).unwrap_err();
            assert!(matches!(refused, ResumeError::NotFinite { tensor: named } if named == tensor), "{refused}");
        }
    }
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    let mut long = whole();
    long.resize(long.len() + 4096, 0);
    let refused = decode(&long).unwrap_err();
    assert!(matches!(refused, ResumeError::TooLong { .. }), "{refused}");
    let problem = |bytes: &[u8]| match decode(bytes).unwrap_err() {
        ResumeError::Malformed(problem) => problem,
        other => panic!("{other}"),
    };
    assert!(matches!(problem(&u64::MAX.to_le_bytes()), ShardProblem::HeaderOverLimit { .. }));
    assert!(matches!(problem(&4000u64.to_le_bytes()), ShardProblem::HeaderTooLong { .. }));
    assert!(matches!(problem(&[1, 2, 3]), ShardProblem::TooShort { length: 3 }));
    let wide = format!(r#"{{"a":{{"dtype":"F32","shape":[{0},4],"data_offsets":[0,{0}]}}}}"#, u64::MAX);
    assert!(matches!(problem(&put_together(&wide, &[])), ShardProblem::Truncated { .. }));
    let vast = format!(r#"{{"a":{{"dtype":"F32","shape":[{},4],"data_offsets":[0,0]}}}}"#, u64::MAX);
    assert!(matches!(problem(&put_together(&vast, &[])), ShardProblem::ImpossibleShape { .. }));
}

proptest! {
    #[test]
    fn any_state_comes_back_to_the_bit(
        step in 1..=TOTAL,
        video in proptest::collection::vec(proptest::num::f32::NORMAL | proptest::num::f32::SUBNORMAL, 12),
        audio in proptest::collection::vec(proptest::num::f32::NORMAL | proptest::num::f32::ZERO, 10),
    ) {
        let rows = SavedRows { step, video, audio };
        let read = decode(&rows.encode(SHAPES, &identity()).bytes).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(read.step, step);
        prop_assert_eq!(bits(&read.video), bits(&rows.video));
        prop_assert_eq!(bits(&read.audio), bits(&rows.audio));
    }

    #[test]
    fn one_changed_byte_is_refused_or_changes_nothing(place in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut bytes = whole();
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        if let Ok(read) = decode(&bytes) {
            prop_assert_eq!(read, rows());
        }
    }

    #[test]
    fn a_checkpoint_that_is_cut_off_is_refused(length in any::<prop::sample::Index>()) {
        let bytes = whole();
        prop_assert!(decode(&bytes[..length.index(bytes.len())]).is_err());
    }

    #[test]
    fn noise_is_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), header in 0u64..300) {
        prop_assert!(decode(&bytes).is_err());
        if let Some(prefix) = bytes.first_chunk_mut() {
            *prefix = header.to_le_bytes();
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
