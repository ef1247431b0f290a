"""The tiny architecture: released where weights or arithmetic are tied to a width, shrunk elsewhere.

Released and kept: 24 and 32 latent channels, patch (1,2,2), 17-frame clips of which 3 latents are dropped,
the 800-sample hop at 32 kHz, conditioning after text layer 50, the vision patch and merge sizes.
Shrunk on purpose to unequal numbers, so that a mixed-up axis cannot go unnoticed: the inner width of attention (64)
is not the hidden width (48), the text width (40) is neither.
"""
from __future__ import annotations

from transformers import PreTrainedTokenizerBase, Qwen3VLConfig

LATENT_CHANNELS = 24
AUDIO_LATENT_CHANNELS = 32
PATCH_SIZE = (1, 2, 2)
SAMPLE_RATE = 32000
SAMPLES_PER_AUDIO_LATENT = 800
FPS = 24
CONDITIONING_LAYER = 50

# The release's tile size and least overlap in pixels. diffusers keeps them in code, the original layout in a config.
TILE_SIZE, TILE_OVERLAP = 256, 64

TRANSFORMER = dict(
    num_attention_heads=4, attention_head_dim=16, hidden_size=48, num_layers=3, num_refiner_layers=2, ffn_dim=80,
    in_channels=LATENT_CHANNELS, audio_in_channels=AUDIO_LATENT_CHANNELS, patch_size=list(PATCH_SIZE), text_dim=40,
    freq_dim=32, time_embed_hidden_dim=48, time_embed_dim=24, rope_freq_dim=2, rope_theta=10000.0,
    norm_eps=1e-5, qk_norm_eps=1e-5, final_norm_eps=1e-5,
)

VIDEO_VAE = dict(
    in_channels=3, out_channels=3, latent_channels=LATENT_CHANNELS, block_out_channels=[8, 8, 8, 16, 16, 16],
    layers_per_block=1, spatial_downsample_factors=[2, 2, 2, 2, 1, 1],
    temporal_downsample_factors=[1, 2, 2, 1, 1, 1], norm_num_groups=4, norm_eps=1e-6,
    spatial_padding_mode="reflect", decoder_num_layers=2, decoder_num_attention_heads=2,
    decoder_attention_head_dim=16, decoder_num_register_tokens=4, decoder_ffn_mult=2, decoder_rope_theta=100.0,
    decoder_rope_dim_ratio=0.75, decoder_norm_eps=1e-5, clip_length=17, token_drop=3,
)

AUDIO_VAE = dict(
    encoder_dim=4, encoder_rates=[2, 4, 4, 5, 5], latent_dim=512, latent_channels=AUDIO_LATENT_CHANNELS,
    num_attention_heads=8, decoder_dim=32, decoder_rates=[5, 5, 4, 4, 2], decoder_kernel_sizes=[9, 9, 8, 8, 4],
    resblock_kernel_sizes=[3, 7, 11], resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5], [1, 3, 5]],
    sampling_rate=SAMPLE_RATE,
)

# Modules of the transformer that the release stores and computes in F32; all else of it is BF16.
F32_TRANSFORMER_MODULES = ("proj_in.", "audio_proj_in.", "time_embedder.", "proj_out.", "audio_proj_out.")


def stored_bf16(component: str, name: str) -> bool:
    """Whether the checkpoint holds this tensor in BF16."""
    if component in ("transformer", "transformer_ref"):
        return not name.startswith(F32_TRANSFORMER_MODULES)
    return component == "text_encoder"


def text_encoder_config(tokenizer: PreTrainedTokenizerBase) -> Qwen3VLConfig:
    """Two more language layers than the conditioning needs, so that reading them is a visible mistake.

    5 x 5 learned positions of the vision tower match no grid of the tests, hence are always interpolated.
    """
    special = tokenizer.convert_tokens_to_ids
    highest_id = max(tokenizer.get_vocab().values())
    return Qwen3VLConfig(
        text_config=dict(
            vocab_size=(highest_id // 16 + 1) * 16, hidden_size=TRANSFORMER["text_dim"], intermediate_size=64,
            num_hidden_layers=CONDITIONING_LAYER + 2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            hidden_act="silu", rms_norm_eps=1e-6, max_position_embeddings=4096,
            rope_parameters={"rope_type": "default", "rope_theta": 5000000.0, "mrope_section": [4, 2, 2],
                             "mrope_interleaved": True},
        ),
        vision_config=dict(
            depth=4, hidden_size=32, intermediate_size=48, num_heads=2, in_channels=3, patch_size=16,
            temporal_patch_size=2, spatial_merge_size=2, out_hidden_size=TRANSFORMER["text_dim"],
            num_position_embeddings=25, deepstack_visual_indexes=[0, 1, 3], hidden_act="gelu_pytorch_tanh",
        ),
        image_token_id=special("<|image_pad|>"), video_token_id=special("<|video_pad|>"),
        vision_start_token_id=special("<|vision_start|>"), vision_end_token_id=special("<|vision_end|>"),
        tie_word_embeddings=False,
    )
