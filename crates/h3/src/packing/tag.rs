//! What kind of row a row is.

/// The modality of a packed row; its number selects the row's modulation.
///
/// Text rows of a picture's vision block, its start and end included, carry [`ModalityTag::Video`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ModalityTag {
    /// A patch of video, or a vision row of the prompt.
    Video = 0,
    /// A token of text.
    Text = 1,
    /// One latent of one audio channel.
    Audio = 2,
}

impl ModalityTag {
    /// The number of modalities.
    pub const COUNT: u32 = 3;

    /// Returns the modality's number.
    pub fn index(self) -> u32 {
        self as u32
    }
}
