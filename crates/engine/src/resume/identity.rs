//! What a denoising state belongs to.

use clapboard_h3::GenerationSpec;
use clapboard_h3::prepare::{PreparedReference, Sound};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// What a state belongs to: the same specification, media and engine make the same bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The SHA-256 of the encoded specification, as hex digits.
    pub(crate) spec: String,
    /// The SHA-256 of the prepared media, as hex digits: the specification has no more of them than names and shapes.
    pub(crate) media: String,
    /// The engine's fingerprint.
    pub(crate) engine: String,
}

impl Identity {
    pub(crate) fn of(spec: &GenerationSpec, media: &[PreparedReference], engine: &str) -> Self {
        Self { spec: hex(&Sha256::digest(spec.encode())), media: digest(media), engine: engine.to_owned() }
    }
}

/// Digests kinds, sizes and values, every size before what it is of.
fn digest(media: &[PreparedReference]) -> String {
    let mut hasher = Sha256::new();
    write_sizes(&mut hasher, &[media.len()]);
    for medium in media {
        match medium {
            PreparedReference::Image(picture) => {
                hasher.update(b"image");
                write_sizes(&mut hasher, &[1, picture.height() as usize, picture.width() as usize]);
                hasher.update(picture.rgb());
            }
            PreparedReference::Video { clip, soundtrack } => {
                hasher.update(b"video");
                write_sizes(&mut hasher, &[clip.frames(), clip.height() as usize, clip.width() as usize]);
                hasher.update(clip.rgb());
                write_sizes(&mut hasher, &[usize::from(soundtrack.is_some())]);
                if let Some(sound) = soundtrack {
                    write_sound(&mut hasher, sound);
                }
            }
            PreparedReference::Audio(sound) => {
                hasher.update(b"audio");
                write_sound(&mut hasher, sound);
            }
        }
    }
    hex(&hasher.finalize())
}

fn write_sizes(hasher: &mut Sha256, sizes: &[usize]) {
    for size in sizes {
        hasher.update((*size as u64).to_le_bytes());
    }
}

fn write_sound(hasher: &mut Sha256, sound: &Sound) {
    write_sizes(hasher, &[sound.samples()]);
    for samples in [sound.left(), sound.right()].into_iter().flat_map(|channel| channel.chunks(4096)) {
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        hasher.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use clapboard_h3::prepare::{Clip, Picture};

    use super::*;

    fn picture(width: u32, height: u32, level: u8) -> PreparedReference {
        let mut rgb = vec![7; (width * height * 3) as usize];
        rgb[5] = level;
        PreparedReference::Image(Picture::new(width, height, rgb).unwrap())
    }

    fn sound(last: f32) -> Sound {
        let mut left = vec![0.25; 5000];
        left[4999] = last;
        Sound::new(left, vec![0.5; 5000]).unwrap()
    }

    fn video(level: u8, soundtrack: Option<Sound>) -> PreparedReference {
        PreparedReference::Video { clip: Clip::new(2, 1, vec![level; 12]).unwrap(), soundtrack }
    }

    #[test]
    fn any_other_value_size_kind_or_order_has_another_digest() {
        let swapped = Sound::new(sound(0.0).right().to_vec(), sound(0.0).left().to_vec()).unwrap();
        let media = [
            vec![],
            vec![picture(4, 2, 1)],
            vec![picture(4, 2, 2)],
            vec![picture(2, 4, 1)],
            vec![picture(4, 2, 1), picture(4, 2, 2)],
            vec![picture(4, 2, 2), picture(4, 2, 1)],
            vec![video(1, None)],
            vec![video(2, None)],
            vec![video(1, Some(sound(0.0)))],
            vec![video(1, None), PreparedReference::Audio(sound(0.0))],
            vec![PreparedReference::Audio(sound(0.0))],
            vec![PreparedReference::Audio(sound(0.1))],
            vec![PreparedReference::Audio(swapped)],
        ];
        let mut digests: Vec<String> = media.iter().map(|media| digest(media)).collect();
        assert_eq!(digests, media.iter().map(|media| digest(media)).collect::<Vec<_>>());
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), media.len());
    }
}
