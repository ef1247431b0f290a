//! How a request is presented to the language model: segments, tokenized one by one, with a tag and a position per row.

use clapboard_h3::packing::ModalityTag;

use super::rope::RotaryPositions;
use super::tokenizer::{Error, Tokenizer};

/// The rows that the language model reads for one request.
///
/// Every segment is tokenized by itself and the ids are joined, so that no merge crosses two segments. No template, no
/// begin or end token and no padding is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presentation {
    ids: Vec<u32>,
    tags: Vec<ModalityTag>,
    positions: RotaryPositions,
}

impl Presentation {
    /// Presents a text-to-video request: the prompt verbatim.
    ///
    /// Errors: What [`Tokenizer::encode_prompt`] refuses.
    pub fn t2va(tokenizer: &Tokenizer, prompt: &str) -> Result<Self, Error> {
        let mut rows = Self { ids: Vec::new(), tags: Vec::new(), positions: RotaryPositions::default() };
        rows.push_text(&tokenizer.encode_prompt(prompt)?);
        Ok(rows)
    }

    /// Returns the token id of every row.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the modality of every row, as the DiT's modulation sees it.
    pub fn tags(&self) -> &[ModalityTag] {
        &self.tags
    }

    /// Returns the rotary positions of every row.
    pub fn positions(&self) -> &RotaryPositions {
        &self.positions
    }

    /// Appends text rows: all axes advance together from the largest position so far.
    fn push_text(&mut self, ids: &[u32]) {
        let used = self.positions.axes().into_iter().flatten().max();
        let start = used.map_or(0, |last| last + 1);
        for (position, &id) in (start..).zip(ids) {
            self.ids.push(id);
            self.tags.push(ModalityTag::Text);
            self.positions.push([position; 3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::tiny_tokenizer;

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
    fn text_goes_on_from_the_last_position() {
        let mut rows = Presentation::t2va(&tiny_tokenizer(), "a").unwrap();
        rows.push_text(&[7, 8]);
        assert_eq!(rows.positions().axes(), [&[0, 1, 2][..]; 3]);
    }
}
