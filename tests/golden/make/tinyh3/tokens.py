"""The tiny tokenizer, a byte-level BPE in Qwen2's format, and the processor around it."""
from __future__ import annotations

from collections import Counter

from transformers import AddedToken, Qwen2Tokenizer, Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

# Qwen's special tokens in the order of their ids.
SPECIAL_TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>",
    "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)

# Holds the pipeline's own labels, so that merges reach across them and a joined tokenisation would show.
CORPUS = (
    "<Picture 1>: <Picture 2>: <Audio 1>: <Audio 2>: <Video 1>: <0.2 seconds><1.0 seconds>"
    " a red fox trotting through the snowy pine forest, snow crunching underfoot."
    " the camera slowly pans left while the singer looks at the viewer and sings the chorus."
)
MERGES = 90

Pair = tuple[str, str]


def byte_alphabet() -> list[str]:
    """GPT-2's printable stand-in for each of the 256 bytes: itself, or the next code point from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    stand_ins = iter(range(256, 512))
    return [chr(byte if byte in printable else next(stand_ins)) for byte in range(256)]


def _merged(word: list[str], pair: Pair) -> list[str]:
    out: list[str] = []
    symbols = iter(range(len(word)))
    for i in symbols:
        if tuple(word[i : i + 2]) == pair:
            out.append(word[i] + word[i + 1])
            next(symbols)
        else:
            out.append(word[i])
    return out


def learn_merges(words: list[list[str]], limit: int) -> list[Pair]:
    """Plain BPE: the most frequent pair first, the smaller pair on a tie, none that occurs once."""
    merges: list[Pair] = []
    while len(merges) < limit:
        counts = Counter(pair for word in words for pair in zip(word, word[1:]))
        pair = min(counts, key=lambda p: (-counts[p], p), default=None)
        if pair is None or counts[pair] < 2:
            break
        merges.append(pair)
        words = [_merged(word, pair) for word in words]
    return merges


def build_tokenizer() -> Qwen2Tokenizer:
    alphabet = byte_alphabet()
    splitter = Qwen2Tokenizer(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]).backend_tokenizer.pre_tokenizer
    merges = learn_merges([list(word) for word, _ in splitter.pre_tokenize_str(CORPUS)], MERGES)
    symbols = dict.fromkeys(alphabet + [a + b for a, b in merges])
    tokenizer = Qwen2Tokenizer(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=merges)
    present = tokenizer.get_vocab()
    # as special tokens, or convert_tokens_to_ids would not know them
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False)
                          for token in SPECIAL_TOKENS if token not in present])
    return tokenizer


def build_processor(tokenizer: Qwen2Tokenizer) -> Qwen3VLProcessor:
    """Released patch arithmetic; only the least image area is lower, to fit the tiny pictures."""
    patches = dict(patch_size=16, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            **patches, size={"shortest_edge": 64 * 64, "longest_edge": 16777216}),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(
            **patches, size={"shortest_edge": 4096, "longest_edge": 25165824}),
    )
