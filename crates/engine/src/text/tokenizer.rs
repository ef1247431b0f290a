//! The checkpoint's tokenizer: byte-level BPE, special-token strings parsed by the tokenizer itself.

use std::path::{Path, PathBuf};

use crate::checkpoint::TextConfig;
use crate::files::{self, TABLE_LIMIT};

/// Why text could not become token ids.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tokenizer's file is absent or is no tokenizer.
    #[error("could not read tokenizer {}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tokenizer has no vocabulary.
    #[error("tokenizer {} knows no token", path.display())]
    NoTokens {
        /// The file.
        path: PathBuf,
    },
    /// The tokenizer gives ids that the language model has no embedding for.
    #[error("tokenizer {} gives ids up to {largest}, the language model has {vocab_size} embeddings", path.display())]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// The largest id it gives.
        largest: u32,
        /// Rows of the embedding table.
        vocab_size: usize,
    },
    /// The tokenizer refused a text.
    #[error("could not tokenize a text of {length} bytes")]
    Encode {
        /// Bytes of the text; the text itself stays out of logs.
        length: usize,
        /// What the tokenizer said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The prompt has no text.
    #[error("prompt is empty")]
    EmptyPrompt,
    /// The prompt spells a token that has a meaning of its own, such as a placeholder for vision features.
    #[error("prompt holds the special token {token} at character {character}, counted from 0")]
    SpecialToken {
        /// The token's text.
        token: String,
        /// Characters before it.
        character: usize,
    },
    /// The prompt has more tokens than the language model has positions.
    #[error("prompt has {tokens} tokens, the language model takes {limit}")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The language model's positions.
        limit: usize,
    },
    /// The prompt alone would fit, but not together with its references.
    #[error("prompt and references have {tokens} tokens together, the language model takes {limit}")]
    TooLongTogether {
        /// Tokens of both.
        tokens: usize,
        /// The language model's positions.
        limit: usize,
    },
}

/// Turns text into token ids.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Added tokens, longest first: of two that begin at one place the tokenizer takes the longer.
    added: Vec<AddedToken>,
    max_tokens: Option<usize>,
}

/// A token that is found in raw text before anything is split.
#[derive(Debug)]
struct AddedToken {
    id: u32,
    content: String,
}

impl Tokenizer {
    /// Loads a `tokenizer.json` for the language model of `config`.
    ///
    /// Errors: [`Error::Load`] when the file cannot be read or is no tokenizer, [`Error::NoTokens`] when its vocabulary
    /// is empty, [`Error::Vocabulary`] when it gives ids without an embedding.
    pub fn load(path: &Path, config: &TextConfig) -> Result<Self, Error> {
        let load = |source| Error::Load { path: path.to_owned(), source };
        let json = files::read(path, TABLE_LIMIT).map_err(|error| load(error.into_source()))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(load)?;
        // A prompt is never cut or filled up, whatever the file asks for.
        inner.with_padding(None).with_truncation(None).map_err(load)?;
        let largest = inner.get_vocab(true).into_values().max();
        let largest = largest.ok_or_else(|| Error::NoTokens { path: path.to_owned() })?;
        if largest as usize >= config.vocab_size {
            return Err(Error::Vocabulary { path: path.to_owned(), largest, vocab_size: config.vocab_size });
        }
        let tokens = inner.get_added_tokens_decoder();
        let mut added: Vec<AddedToken> =
            tokens.into_iter().map(|(id, token)| AddedToken { id, content: token.content }).collect();
        added.retain(|token| !token.content.is_empty());
        added.sort_by(|a, b| b.content.len().cmp(&a.content.len()).then_with(|| a.content.cmp(&b.content)));
        Ok(Self { inner, added, max_tokens: config.max_position_embeddings })
    }

    /// Checks that the language model has positions for a prompt together with its references.
    ///
    /// Errors: [`Error::TooLongTogether`].
    pub(super) fn check_together(&self, tokens: usize) -> Result<(), Error> {
        match self.max_tokens {
            Some(limit) if tokens > limit => Err(Error::TooLongTogether { tokens, limit }),
            _ => Ok(()),
        }
    }

    /// Tokenizes one segment; special-token strings in it become their ids, and nothing is put around it.
    ///
    /// Errors: [`Error::Encode`] when the tokenizer fails.
    pub fn encode_segment(&self, text: &str) -> Result<Vec<u32>, Error> {
        match self.inner.encode_fast(text, false) {
            Ok(encoding) => Ok(encoding.get_ids().to_vec()),
            Err(source) => Err(Error::Encode { length: text.len(), source }),
        }
    }

    /// Tokenizes a user's prompt, which must have text and spell no added token of this tokenizer.
    ///
    /// Such a token would pass for structure: an image placeholder, say, that no image stands behind.
    ///
    /// Errors: [`Error::EmptyPrompt`], [`Error::SpecialToken`] with the first token and its place, [`Error::TooLong`]
    /// when the language model has fewer positions, [`Error::Encode`].
    pub fn encode_prompt(&self, prompt: &str) -> Result<Vec<u32>, Error> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let special = |token: &AddedToken, character| Error::SpecialToken { token: token.content.clone(), character };
        let spelled = self.added.iter().filter_map(|token| Some((prompt.find(&token.content)?, token)));
        // Of several at one place the longest stays, since it comes first.
        if let Some((place, token)) = spelled.min_by_key(|(place, _)| *place) {
            return Err(special(token, prompt[..place].chars().count()));
        }
        let encoding = self.inner.encode_char_offsets(prompt, false);
        let encoding = encoding.map_err(|source| Error::Encode { length: prompt.len(), source })?;
        // A token that is matched after normalisation can be spelled in other characters than its own.
        for (id, (character, _)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
            if let Some(token) = self.added.iter().find(|token| token.id == *id) {
                return Err(special(token, *character));
            }
        }
        let tokens = encoding.len();
        match self.max_tokens {
            Some(limit) if tokens > limit => Err(Error::TooLong { tokens, limit }),
            _ => Ok(encoding.get_ids().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::testing::{tiny_config, tiny_tokenizer, tokenizer_path};

    #[test]
    fn segments_equal_the_golden_ids() {
        let tables = std::fs::read(tokenizer_path().with_file_name("tables.json")).unwrap();
        let tables: serde_json::Value = serde_json::from_slice(&tables).unwrap();
        let cases = tables["tokenizer"].as_array().unwrap();
        assert!(cases.len() >= 10);
        let tokenizer = tiny_tokenizer();
        for case in cases {
            let text = case["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(tokenizer.encode_segment(text).unwrap(), ids, "{text:?}");
        }
    }

    #[test]
    fn an_empty_segment_has_no_ids() {
        assert!(tiny_tokenizer().encode_segment("").unwrap().is_empty());
    }

    #[test]
    fn a_prompt_that_spells_a_special_token_is_refused_with_its_place() {
        let refused = tiny_tokenizer().encode_prompt("é fox <|image_pad|> and <|im_end|>").unwrap_err();
        assert_eq!(refused.to_string(), "prompt holds the special token <|image_pad|> at character 6, counted from 0");
    }

    #[test]
    fn every_added_token_is_refused_wherever_it_stands() {
        let tokenizer = tiny_tokenizer();
        assert_eq!(tokenizer.added.len(), 14);
        for token in &tokenizer.added {
            let content = &token.content;
            for prompt in [content.clone(), format!("x{content}"), format!("{content}x")] {
                let refused = tokenizer.encode_prompt(&prompt).unwrap_err();
                assert!(matches!(&refused, Error::SpecialToken { token, .. } if token == content), "{refused}");
            }
        }
    }

    #[test]
    fn what_only_resembles_a_special_token_passes() {
        for prompt in ["<|image_pad|", "< |image_pad|>", "<Picture 1>: a fox", " ", "<|IMAGE_PAD|>"] {
            tiny_tokenizer().encode_prompt(prompt).unwrap();
        }
        assert!(matches!(tiny_tokenizer().encode_prompt(""), Err(Error::EmptyPrompt)));
    }

    #[test]
    fn a_vocabulary_larger_than_the_embedding_table_is_refused() {
        let narrow = TextConfig { vocab_size: 306, ..tiny_config() };
        let refused = Tokenizer::load(&tokenizer_path(), &narrow).unwrap_err();
        assert!(matches!(refused, Error::Vocabulary { largest: 306, vocab_size: 306, .. }), "{refused}");
    }

    #[test]
    fn a_prompt_longer_than_the_positions_is_refused() {
        let short = TextConfig { max_position_embeddings: Some(3), ..tiny_config() };
        let tokenizer = Tokenizer::load(&tokenizer_path(), &short).unwrap();
        assert_eq!(tokenizer.encode_prompt("123").unwrap().len(), 3);
        let refused = tokenizer.encode_prompt("1234").unwrap_err();
        assert_eq!(refused.to_string(), "prompt has 4 tokens, the language model takes 3");
    }

    #[test]
    fn a_token_spelled_in_unnormalised_characters_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = altered_tokenizer(folder.path(), |json| {
            let token = serde_json::json!({
                "id": 307, "content": "\u{e9}\u{e9}", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": true, "special": false
            });
            json["added_tokens"].as_array_mut().unwrap().push(token);
        });
        let tokenizer = Tokenizer::load(&path, &tiny_config()).unwrap();
        let refused = tokenizer.encode_prompt("ab e\u{301}e\u{301}").unwrap_err();
        assert!(matches!(&refused, Error::SpecialToken { character: 3, .. }), "{refused}");
    }

    #[test]
    fn a_missing_or_broken_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let missing = Tokenizer::load(&path, &tiny_config()).unwrap_err();
        assert!(missing.to_string().contains("tokenizer.json"), "{missing}");
        std::fs::write(&path, "{\"model\":").unwrap();
        assert!(matches!(Tokenizer::load(&path, &tiny_config()), Err(Error::Load { .. })));
        let empty = serde_json::json!({ "version": "1.0", "model": { "type": "BPE", "vocab": {}, "merges": [] } });
        std::fs::write(&path, empty.to_string()).unwrap();
        assert!(matches!(Tokenizer::load(&path, &tiny_config()), Err(Error::NoTokens { .. })));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let device = Tokenizer::load(&path, &tiny_config()).unwrap_err();
        let source = std::error::Error::source(&device).unwrap();
        assert_eq!(source.to_string(), "it is not a regular file");
    }

    #[test]
    fn truncation_and_padding_of_the_file_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = altered_tokenizer(folder.path(), |json| {
            json["truncation"] = serde_json::json!({
                "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
            });
            json["padding"] = serde_json::json!({
                "strategy": {"Fixed": 600}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 293,
                "pad_type_id": 0, "pad_token": "<|endoftext|>"
            });
        });
        let altered = Tokenizer::load(&path, &tiny_config()).unwrap();
        let text = "a red fox trots through the snow";
        assert_eq!(altered.encode_segment(text).unwrap(), tiny_tokenizer().encode_segment(text).unwrap());
    }

    /// Writes the tiny tokenizer into `folder` after `alter` changed it.
    fn altered_tokenizer(folder: &Path, alter: impl FnOnce(&mut serde_json::Value)) -> PathBuf {
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(tokenizer_path()).unwrap()).unwrap();
        alter(&mut json);
        let path = folder.join("tokenizer.json");
        std::fs::write(&path, serde_json::to_vec(&json).unwrap()).unwrap();
        path
    }
}
