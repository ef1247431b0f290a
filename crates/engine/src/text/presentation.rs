//! How a request is presented to the language model: segments, tokenized one by one, with a tag and a position per row.

use clapboard_h3::packing::ModalityTag;

use super::rope::RotaryPositions;
use super::tokenizer::{Error, Tokenizer};
use crate::checkpoint::TextEncoderConfig;
use crate::vision::PatchGrid;

/// The rows that the language model reads for one request.
///
/// Every segment is tokenized by itself and the ids are joined, so that no merge crosses two segments. No template, no
/// begin or end token and no padding is added. A user's prompt can spell no special token, so every placeholder stands
/// for pixels that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presentation {
    ids: Vec<u32>,
    tags: Vec<ModalityTag>,
    kinds: Vec<TokenKind>,
    positions: RotaryPositions,
    /// The position of the next text row.
    next: u32,
}

/// What a row of the language model stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// Text, and the tokens that open and close a run of pixels.
    Text = 0,
    /// A piece of a picture.
    Image = 1,
    /// A piece of a video.
    Video = 2,
}

impl TokenKind {
    /// Returns the kind's name in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::Video => "video",
        }
    }
}

/// The special tokens of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisionTokens {
    /// Opens a run.
    pub start: u32,
    /// Closes a run.
    pub end: u32,
    /// Stands for a piece of a picture.
    pub image: u32,
    /// Stands for a piece of a video.
    pub video: u32,
    /// Patches per side that make up a piece.
    pub merge_size: usize,
}

impl VisionTokens {
    /// Takes them from the text encoder's config.
    pub fn of(config: &TextEncoderConfig) -> Self {
        Self {
            start: config.vision_start_token_id,
            end: config.vision_end_token_id,
            image: config.image_token_id,
            video: config.video_token_id,
            merge_size: config.vision.spatial_merge_size,
        }
    }
}

/// What a presentation has to know of a reference.
#[derive(Debug, Clone, PartialEq)]
pub enum PresentedReference {
    /// A picture of so many patches.
    Image(PatchGrid),
    /// A sound, which the language model does not hear.
    Audio,
    /// A video of so many patches.
    Video {
        /// Whether sound goes with it.
        soundtrack: bool,
        /// Its patches.
        grid: PatchGrid,
        /// The time of each frame of patches, in seconds.
        timestamps: Vec<f64>,
    },
}

impl Presentation {
    /// Presents a text-to-video request: the prompt verbatim.
    ///
    /// Errors: What [`Tokenizer::encode_prompt`] refuses.
    pub fn t2va(tokenizer: &Tokenizer, prompt: &str) -> Result<Self, Error> {
        let mut rows = Self::empty();
        rows.push_text(&tokenizer.encode_prompt(prompt)?);
        Ok(rows)
    }

    /// Presents text rows of the given ids, for who measures.
    pub(crate) fn of_ids(ids: &[u32]) -> Self {
        let mut rows = Self::empty();
        rows.push_text(ids);
        rows
    }

    /// Presents a request with references, keyframes among them: a label and a run of placeholders for each in order,
    /// then the prompt verbatim.
    ///
    /// Labels count per kind from 1; a soundtrack's comes before its video's and counts with the sounds. A sound has
    /// only its label. A video has a run for each frame of patches, labelled with its time.
    ///
    /// Errors: What [`Tokenizer::encode_prompt`] refuses; [`Error::TooLongTogether`].
    ///
    /// Source: diffusers 0.42.1 `MiniMaxH3Ref2VATextEncoderStep._build_presentation`, of which the presentation of
    /// keyframes is the special case of pictures.
    pub fn with_references(
        tokenizer: &Tokenizer,
        tokens: VisionTokens,
        prompt: &str,
        references: &[PresentedReference],
    ) -> Result<Self, Error> {
        // Refused before anything is laid out.
        let prompt = tokenizer.encode_prompt(prompt)?;
        let mut rows = Self::empty();
        let (mut pictures, mut sounds, mut videos) = (0, 0, 0);
        for reference in references {
            if matches!(reference, PresentedReference::Audio | PresentedReference::Video { soundtrack: true, .. }) {
                sounds += 1;
                rows.push_text(&tokenizer.encode_segment(&format!("<Audio {sounds}>: "))?);
            }
            match reference {
                PresentedReference::Audio => {}
                PresentedReference::Image(grid) => {
                    pictures += 1;
                    rows.push_text(&tokenizer.encode_segment(&format!("<Picture {pictures}>: "))?);
                    rows.push_pixels(tokens, TokenKind::Image, *grid);
                }
                PresentedReference::Video { grid, timestamps, .. } => {
                    videos += 1;
                    rows.push_text(&tokenizer.encode_segment(&format!("<Video {videos}>: "))?);
                    for seconds in timestamps {
                        // Halves go to the even digit of the exact value, as the reference prints them.
                        rows.push_text(&tokenizer.encode_segment(&format!("<{seconds:.1} seconds>"))?);
                        rows.push_pixels(tokens, TokenKind::Video, *grid);
                    }
                }
            }
        }
        rows.push_text(&prompt);
        tokenizer.check_together(rows.ids.len())?;
        Ok(rows)
    }

    fn empty() -> Self {
        Self { ids: Vec::new(), tags: Vec::new(), kinds: Vec::new(), positions: RotaryPositions::default(), next: 0 }
    }

    /// Returns the token id of every row.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the modality of every row, as the DiT's modulation sees it: a whole run of pixels is video, the tokens
    /// that open and close it too.
    pub fn tags(&self) -> &[ModalityTag] {
        &self.tags
    }

    /// Returns what every row stands for.
    pub fn kinds(&self) -> &[TokenKind] {
        &self.kinds
    }

    /// Returns the rows of one kind.
    pub fn rows_of(&self, kind: TokenKind) -> Vec<u32> {
        (0..).zip(&self.kinds).filter(|(_, other)| **other == kind).map(|(row, _)| row).collect()
    }

    /// Returns the rotary positions of every row.
    pub fn positions(&self) -> &RotaryPositions {
        &self.positions
    }

    /// Appends text rows: all axes advance together from the largest position so far.
    fn push_text(&mut self, ids: &[u32]) {
        ids.iter().for_each(|&id| self.push_token(id, ModalityTag::Text));
    }

    /// Appends a row at the next position of all axes.
    fn push_token(&mut self, id: u32, tag: ModalityTag) {
        self.push(id, tag, TokenKind::Text, [self.next; 3]);
        self.next += 1;
    }

    /// Appends the run of one frame of patches: it stands still in time and spreads over height and width; what follows
    /// goes on behind its longer side.
    fn push_pixels(&mut self, tokens: VisionTokens, kind: TokenKind, grid: PatchGrid) {
        let id = if kind == TokenKind::Image { tokens.image } else { tokens.video };
        self.push_token(tokens.start, ModalityTag::Video);
        let [height, width] = grid.tokens_per_frame(tokens.merge_size).map(|tokens| tokens as u32);
        let start = self.next;
        for row in 0..height {
            for column in 0..width {
                self.push(id, ModalityTag::Video, kind, [start, start + row, start + column]);
            }
        }
        self.next += height.max(width);
        self.push_token(tokens.end, ModalityTag::Video);
    }

    fn push(&mut self, id: u32, tag: ModalityTag, kind: TokenKind, position: [u32; 3]) {
        self.ids.push(id);
        self.tags.push(tag);
        self.kinds.push(kind);
        self.positions.push(position);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::testing::tiny_tokenizer;

    const TOKENS: VisionTokens = VisionTokens { start: 302, end: 303, image: 305, video: 306, merge_size: 2 };

    fn grid(frames: usize, height: usize, width: usize) -> PatchGrid {
        PatchGrid { frames, height, width }
    }

    fn video(soundtrack: bool, timestamps: &[f64]) -> PresentedReference {
        PresentedReference::Video { soundtrack, grid: grid(timestamps.len(), 2, 4), timestamps: timestamps.to_vec() }
    }

    /// Joins segments as the tokenizer gives them.
    fn joined(segments: &[&str]) -> Vec<u32> {
        let tokenizer = tiny_tokenizer();
        segments.iter().flat_map(|segment| tokenizer.encode_segment(segment).unwrap()).collect()
    }

    #[test]
    fn a_prompt_is_presented_verbatim() {
        let prompt = "  two  spaces\n\nand\tTabs 12345 don't ";
        let tokenizer = tiny_tokenizer();
        let rows = Presentation::t2va(&tokenizer, prompt).unwrap();
        assert_eq!(rows.ids(), tokenizer.encode_segment(prompt).unwrap());
        assert!(rows.tags().iter().all(|&tag| tag == ModalityTag::Text));
        assert_eq!(rows.tags().len(), rows.ids().len());
        let arange: Vec<u32> = (0..rows.ids().len() as u32).collect();
        assert_eq!(rows.positions().axes(), [&arange[..]; 3]);
    }

    #[test]
    fn empty_prompts_and_special_tokens_are_refused() {
        let tokenizer = tiny_tokenizer();
        assert!(matches!(Presentation::t2va(&tokenizer, ""), Err(Error::EmptyPrompt)));
        let refused = Presentation::t2va(&tokenizer, "a fox<|vision_start|>").unwrap_err();
        assert!(
            matches!(&refused, Error::SpecialToken { token, character: 5 } if token == "<|vision_start|>"),
            "{refused}"
        );
    }

    #[test]
    fn a_placeholder_in_the_prompt_never_counts_beside_real_ones() {
        let references = [PresentedReference::Image(grid(1, 2, 2))];
        let tokenizer = tiny_tokenizer();
        for prompt in ["<|image_pad|>", "a <|video_pad|> b", "<|vision_end|>"] {
            let refused = Presentation::with_references(&tokenizer, TOKENS, prompt, &references).unwrap_err();
            assert!(matches!(refused, Error::SpecialToken { .. }), "{refused}");
        }
        let plain = Presentation::with_references(&tokenizer, TOKENS, "<image_pad>", &references).unwrap();
        assert_eq!(plain.rows_of(TokenKind::Image).len(), 1);
    }

    #[test]
    fn text_goes_on_from_the_last_position() {
        let mut rows = Presentation::t2va(&tiny_tokenizer(), "a").unwrap();
        rows.push_text(&[7, 8]);
        assert_eq!(rows.positions().axes(), [&[0, 1, 2][..]; 3]);
    }

    #[test]
    fn labels_count_per_kind_and_a_soundtrack_comes_before_its_video() {
        let references = [
            video(true, &[0.25, 1.0]),
            PresentedReference::Image(grid(1, 2, 2)),
            PresentedReference::Audio,
            PresentedReference::Image(grid(1, 2, 2)),
        ];
        let rows = Presentation::with_references(&tiny_tokenizer(), TOKENS, "go", &references).unwrap();
        let pair = "<|vision_start|><|video_pad|><|video_pad|><|vision_end|>";
        let picture = "<|vision_start|><|image_pad|><|vision_end|>";
        let segments = [
            "<Audio 1>: ",
            "<Video 1>: ",
            "<0.2 seconds>",
            pair,
            "<1.0 seconds>",
            pair,
            "<Picture 1>: ",
            picture,
            "<Audio 2>: ",
            "<Picture 2>: ",
            picture,
            "go",
        ];
        assert_eq!(rows.ids(), joined(&segments));
        let videos = rows.tags().iter().filter(|tag| **tag == ModalityTag::Video).count();
        // The tokens that open and close a run are tagged with it, but stand for no pixels.
        assert_eq!((videos, rows.rows_of(TokenKind::Video).len(), rows.rows_of(TokenKind::Image).len()), (14, 4, 2));
    }

    #[test]
    fn times_round_half_to_even_of_the_exact_value() {
        let printed = [0.25f64, 0.75, 1.25, 1.75, 2.25, 12.25, 1.0].map(|seconds| format!("{seconds:.1}"));
        assert_eq!(printed, ["0.2", "0.8", "1.2", "1.8", "2.2", "12.2", "1.0"]);
    }

    #[test]
    fn a_run_of_pixels_stands_still_in_time_and_the_rest_follows_its_longer_side() {
        let references = [PresentedReference::Image(grid(1, 4, 6))];
        let rows = Presentation::with_references(&tiny_tokenizer(), TOKENS, "1", &references).unwrap();
        let label = joined(&["<Picture 1>: "]).len() as u32;
        let [time, height, width] = rows.positions().axes().map(|axis| axis[label as usize..].to_vec());
        let p = label + 1;
        assert_eq!(time, [label, p, p, p, p, p, p, p + 3, p + 4]);
        assert_eq!(height, [label, p, p, p, p + 1, p + 1, p + 1, p + 3, p + 4]);
        assert_eq!(width, [label, p, p + 1, p + 2, p, p + 1, p + 2, p + 3, p + 4]);
    }

    #[test]
    fn references_that_leave_no_room_are_refused() {
        let references = vec![PresentedReference::Image(grid(1, 64, 64)); 4];
        let refused = Presentation::with_references(&tiny_tokenizer(), TOKENS, "1", &references).unwrap_err();
        assert!(matches!(refused, Error::TooLongTogether { tokens: 4097.., limit: 4096 }), "{refused}");
    }

    proptest! {
        #[test]
        fn positions_never_fall_behind_a_finished_segment(
            sizes in prop::collection::vec((1usize..5, 1usize..5), 0..4), sound: bool,
        ) {
            let mut references: Vec<_> = sizes
                .iter()
                .map(|(height, width)| PresentedReference::Image(grid(1, 2 * height, 2 * width)))
                .collect();
            if sound {
                references.push(PresentedReference::Audio);
            }
            let rows = Presentation::with_references(&tiny_tokenizer(), TOKENS, "x y", &references).unwrap();
            let count = rows.ids().len();
            prop_assert_eq!((rows.tags().len(), rows.kinds().len(), rows.positions().len()), (count, count, count));
            let pads: usize = sizes.iter().map(|(height, width)| height * width).sum();
            prop_assert_eq!(rows.rows_of(TokenKind::Image).len(), pads);
            let [time, height, width] = rows.positions().axes();
            prop_assert!(time.is_sorted());
            // A text row is behind every position before it.
            let mut largest = None;
            for row in 0..count {
                if rows.kinds()[row] == TokenKind::Text {
                    prop_assert!(largest.is_none_or(|largest| time[row] > largest));
                    prop_assert_eq!((height[row], width[row]), (time[row], time[row]));
                }
                largest = largest.max(Some(time[row].max(height[row]).max(width[row])));
            }
        }
    }
}
