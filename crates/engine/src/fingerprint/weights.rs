//! The checkpoint, by its configs and by samples of its tensors.

use std::ops::Range;

use super::transcript::Transcript;
use crate::checkpoint::Component;
use crate::components::Components;
use crate::load::{LoadError, Loading, Mapped};

/// Bytes of one piece of a tensor.
const PIECE: usize = 4096;

/// Bytes of a tensor for each piece that is read of it.
const STRIDE: usize = 64 << 20;

/// Takes note of everything that is loaded for the partition of `mapped`. Files and shards have no part in it: a checkpoint
/// that is moved or cut into other shards is the same.
pub(super) fn describe(mapped: &Mapped, loading: Loading<'_>, transcript: &mut Transcript) -> Result<(), LoadError> {
    let Mapped { checkpoint, components, partition } = mapped;
    transcript.say("layout", checkpoint.layout());
    transcript.say("text encoder", format_args!("{:?}", checkpoint.text_encoder()));
    transcript.say("dit", format_args!("{:?}", checkpoint.dit(*partition)?));
    transcript.say("video vae", format_args!("{:?}", checkpoint.video_vae()));
    transcript.say("audio vae", format_args!("{:?}", checkpoint.audio_vae()));
    transcript.show("tokenizer", &checkpoint.tokenizer_bytes()?);
    let Components { text_encoder, dit, video_vae, audio_vae } = components;
    sample([text_encoder, dit, video_vae, audio_vae], loading, transcript)
}

/// Takes note of every tensor's name, type and shape, and of evenly spaced pieces of its values: whoever trains or
/// converts a tensor changes all of it.
fn sample(components: [&Component; 4], loading: Loading<'_>, transcript: &mut Transcript) -> Result<(), LoadError> {
    for component in components {
        transcript.say("component", component.id());
        for tensor in component.stored() {
            transcript.say("tensor", format_args!("{} {} {:?}", tensor.name(), tensor.dtype(), tensor.shape()));
            tensor.scattered(|bytes| {
                for piece in pieces(bytes.len()) {
                    transcript.show("piece", &bytes[piece]);
                }
            });
            loading.goes_on()?;
        }
    }
    Ok(())
}

/// Spreads pieces evenly over `length` bytes: the middle of a small tensor, beginning, end and between of a large one.
fn pieces(length: usize) -> impl Iterator<Item = Range<usize>> {
    let (piece, gaps) = (PIECE.min(length), length / STRIDE);
    let room = length - piece;
    (0..=gaps).map(move |index| {
        let start = room.checked_div(gaps).map_or(room / 2, |gap| gap * index);
        start..start + piece
    })
}

#[cfg(test)]
mod tests {
    use clapboard_h3::Partition;
    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::tiny::write_sparse_released;
    use crate::checkpoint::{Checkpoint, ComponentId, Layout};

    #[test]
    fn little_of_a_checkpoint_of_released_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("released");
        write_sparse_released(Layout::Original, &root).unwrap();
        let checkpoint = Checkpoint::open(&root).unwrap();
        let ids = [
            ComponentId::TextEncoder,
            ComponentId::Dit(Partition::Fl2va),
            ComponentId::VideoVae,
            ComponentId::AudioVae,
        ];
        let (mut stored, mut read) = (0, 0);
        for id in ids {
            for tensor in checkpoint.component(id).unwrap().stored() {
                stored += tensor.bytes().len();
                read += pieces(tensor.bytes().len()).map(|piece| piece.len()).sum::<usize>();
            }
        }
        assert!(stored > 130 << 30, "{stored}");
        assert!((8 << 20..24 << 20).contains(&read), "{read}");
    }

    proptest! {
        #[test]
        fn pieces_lie_within_their_tensor_and_leave_no_larger_gap_than_a_stride(length in 0usize..(1 << 33)) {
            let pieces: Vec<_> = pieces(length).collect();
            prop_assert_eq!(pieces.len(), 1 + length / STRIDE);
            for piece in &pieces {
                prop_assert!(piece.end <= length && piece.len() == PIECE.min(length));
            }
            for pair in pieces.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start && pair[1].start - pair[0].end <= 2 * STRIDE);
            }
        }
    }
}
