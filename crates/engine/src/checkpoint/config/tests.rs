use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;
use crate::checkpoint::error::{ConfigProblem, Error};
use crate::checkpoint::layout::Layout;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/configs").join(path)
}

fn golden_json(path: &str) -> Value {
    serde_json::from_slice(&fs::read(golden(path)).unwrap()).unwrap()
}

/// Writes one config file into a fresh folder and returns both.
fn written(value: &Value) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    fs::write(&path, value.to_string()).unwrap();
    (dir, path)
}

fn problems(error: Error) -> Vec<ConfigProblem> {
    match error {
        Error::Config { problems, .. } => problems,
        other => panic!("expected a config error, got {other}"),
    }
}

#[test]
fn both_layouts_describe_the_same_networks() {
    let dit = |layout, path| DitConfig::read(layout, &golden(path)).unwrap();
    assert_eq!(
        dit(Layout::Original, "original/FL2VA/transformer/config.json"),
        dit(Layout::Diffusers, "diffusers/transformer/config.json")
    );
    let video = |layout, path| VideoVaeConfig::read(layout, &golden(path)).unwrap();
    let original = video(Layout::Original, "original/FL2VA/video_vae");
    assert_eq!(original, video(Layout::Diffusers, "diffusers/vae"));
    assert_eq!((original.tile_size, original.tile_overlap_min), (256, 64));
    let audio = |layout, path| AudioVaeConfig::read(layout, &golden(path)).unwrap();
    let original = audio(Layout::Original, "original/FL2VA/audio_vae");
    assert_eq!(original, audio(Layout::Diffusers, "diffusers/audio_vae"));
    assert_eq!(original.decoder_kernel_sizes, [9, 9, 8, 8, 4]);
    assert_eq!(original.hop_length(), 800);
    let sampling = |layout, path| SamplingConfig::read(layout, &golden(path), "fl2va").unwrap();
    let original = sampling(Layout::Original, "original/FL2VA");
    assert_eq!(original, sampling(Layout::Diffusers, "diffusers"));
    assert_eq!((original.video_shift, original.audio_shift), (12.0, 3.0));
}

#[test]
fn missing_keys_are_listed_all_at_once() {
    let mut config = golden_json("original/FL2VA/transformer/config.json");
    for key in ["hidden_size", "token_refiner_num_layers", "rope_inv_freq_len"] {
        config.as_object_mut().unwrap().remove(key);
    }
    config["num_layers"] = json!("three");
    let (_dir, path) = written(&config);
    let error = DitConfig::read(Layout::Original, &path).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("config {}", path.display())), "{text}");
    assert!(text.contains("missing keys: token_refiner_num_layers, hidden_size, rope_inv_freq_len"), "{text}");
    assert!(text.contains("key num_layers must be a positive integer, found \"three\""), "{text}");
    assert_eq!(problems(error).len(), 4);
}

#[test]
fn nested_missing_keys_are_named_by_their_path() {
    let mut config = golden_json("diffusers/text_encoder/config.json");
    config["text_config"].as_object_mut().unwrap().remove("head_dim");
    config.as_object_mut().unwrap().remove("vision_config");
    let (_dir, path) = written(&config);
    let text = TextEncoderConfig::read(&path).unwrap_err().to_string();
    assert!(text.contains("text_config.head_dim"), "{text}");
    assert!(text.contains("vision_config.deepstack_visual_indexes"), "{text}");
}

#[test]
fn unknown_keys_are_tolerated_and_known_defaults_apply() {
    let mut config = golden_json("diffusers/transformer/config.json");
    let expected = DitConfig::read(Layout::Diffusers, &golden("diffusers/transformer/config.json")).unwrap();
    config["something_new"] = json!({ "deep": [1, 2] });
    for key in ["rope_theta", "norm_eps", "qk_norm_eps", "final_norm_eps"] {
        config.as_object_mut().unwrap().remove(key);
    }
    let (_dir, path) = written(&config);
    assert_eq!(DitConfig::read(Layout::Diffusers, &path).unwrap(), expected);
}

#[test]
fn rules_of_the_transformer_are_enforced() {
    let broken = [
        ("patch_size", json!([2, 2, 2]), "patch_size must be [1, 2, 2]"),
        ("rope_inv_freq_len", json!(3), "rotate 18 channels, a head has 16"),
        ("adaln_out_features", json!(865), "adaln_out_features must be 864"),
        ("final_adaln_out_features", json!(48), "final_adaln_out_features must be 96"),
        ("timestep_input_dim", json!(31), "even width"),
        ("hidden_size", json!(0), "key hidden_size must be a positive integer"),
        ("hidden_size", json!(1_u64 << 40), "key hidden_size must be a positive integer"),
        ("norm_eps", json!(-1.0), "key norm_eps must be a positive number"),
    ];
    for (key, value, message) in broken {
        let mut config = golden_json("original/FL2VA/transformer/config.json");
        config[key] = value;
        let (_dir, path) = written(&config);
        let text = DitConfig::read(Layout::Original, &path).unwrap_err().to_string();
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn rules_of_the_text_encoder_are_enforced() {
    let broken = [
        ("/text_config/num_hidden_layers", json!(49), "after layer 50"),
        ("/text_config/num_key_value_heads", json!(3), "cannot share 3"),
        ("/text_config/rope_parameters/mrope_section", json!([4, 2, 1]), "must sum to half of head_dim"),
        ("/text_config/rope_parameters/mrope_section", json!([2, 3, 3]), "cannot be interleaved"),
        ("/text_config/rope_parameters/mrope_section", json!([8]), "three entries"),
        ("/text_config/rope_parameters/mrope_interleaved", json!(false), "must be true"),
        ("/text_config/hidden_act", json!("gelu"), "must be silu"),
        ("/vision_config/deepstack_visual_indexes", json!([0, 4]), "stay below depth"),
        ("/vision_config/num_position_embeddings", json!(24), "must be a square"),
        ("/vision_config/out_hidden_size", json!(41), "must equal text_config.hidden_size"),
        ("/image_token_id", json!(320), "outside the vocabulary"),
    ];
    for (pointer, value, message) in broken {
        let mut config = golden_json("diffusers/text_encoder/config.json");
        *config.pointer_mut(pointer).unwrap() = value;
        let (_dir, path) = written(&config);
        let text = TextEncoderConfig::read(&path).unwrap_err().to_string();
        assert!(text.contains(message), "{pointer}: {text}");
    }
}

#[test]
fn rotary_settings_are_found_in_the_older_spelling_too() {
    let mut config = golden_json("diffusers/text_encoder/config.json");
    let expected = TextEncoderConfig::read(&golden("diffusers/text_encoder/config.json")).unwrap();
    let text = config["text_config"].as_object_mut().unwrap();
    let mut rope = text.remove("rope_parameters").unwrap();
    text.insert("rope_theta".to_owned(), rope.as_object_mut().unwrap().remove("rope_theta").unwrap());
    text.insert("rope_scaling".to_owned(), rope);
    let (_dir, path) = written(&config);
    assert_eq!(TextEncoderConfig::read(&path).unwrap(), expected);
}

#[test]
fn rules_of_the_vaes_are_enforced() {
    let video = [
        ("latents_std", json!([1.0]), "24 latent channels need as many"),
        ("temporal_downsample_factors", json!([1, 2]), "6 encoder levels need as many strides"),
        ("decoder_rope_dim_ratio", json!(0.5), "multiple of 6"),
        ("token_drop", json!(5), "latents dropped at the end of a video must be 3, found 5"),
        ("clip_length", json!(13), "frames per clip must be 17, found 13"),
        ("out_channels", json!(4), "pixel channels must be 3, found 4"),
        // A product beyond 64 bits.
        (
            "spatial_downsample_factors",
            json!([1 << 20, 1 << 20, 1 << 20, 1 << 20, 1, 1]),
            "per latent and side must be 16",
        ),
        (
            "temporal_downsample_factors",
            json!([1 << 20, 1 << 20, 1 << 20, 1 << 4, 1, 1]),
            "frames per latent must be 4",
        ),
        ("norm_num_groups", json!(3), "multiples of 3 norm groups"),
        ("spatial_padding_mode", json!("zeros"), "must be reflect"),
    ];
    for (key, value, message) in video {
        let mut config = golden_json("diffusers/vae/config.json");
        config[key] = value;
        let (dir, _) = written(&config);
        let text = VideoVaeConfig::read(Layout::Diffusers, dir.path()).unwrap_err().to_string();
        assert!(text.contains(message), "{text}");
    }
    let audio = [
        ("decoder_rates", json!([5, 5, 4, 4, 4]), "must multiply to the hop length 800"),
        ("decoder_dim", json!(48), "cannot be halved 5 times"),
        ("sampling_rate", json!(44_100), "samples per second must be 32000, found 44100"),
        ("encoder_rates", json!([2, 4, 4, 5, 4]), "samples per latent must be 800, found 640"),
        ("encoder_rates", json!([1 << 20, 1 << 20, 1 << 20, 1 << 20]), "samples per latent must be 800"),
        ("encoder_rates", json!([vec![2, 4, 4, 5, 5], vec![1; 60]].concat()), "cannot be doubled 65 times"),
        ("num_attention_heads", json!(3), "must split over 3 heads"),
        ("decoder_kernel_sizes", json!([9, 9, 8, 8]), "needs one kernel for each rate"),
        ("resblock_kernel_sizes", json!([3, 7, 10]), "must be odd"),
        ("latents_mean", json!(["a"]), "key latents_mean must be a list of finite numbers"),
    ];
    for (key, value, message) in audio {
        let mut config = golden_json("diffusers/audio_vae/config.json");
        config[key] = value;
        let (dir, _) = written(&config);
        let text = AudioVaeConfig::read(Layout::Diffusers, dir.path()).unwrap_err().to_string();
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn distilled_schedules_are_read_and_checked() {
    let read = |partition: &str, schedule: Value| {
        let dir = tempfile::tempdir().unwrap();
        let index = json!({ "_minimax_h3": { "partition": "fl2va", "base_schedule": schedule } });
        fs::write(dir.path().join("model_index.json"), index.to_string()).unwrap();
        SamplingConfig::read(Layout::Original, dir.path(), partition)
    };
    let config = read("fl2va", json!([0.999, 0.5, 0.0])).unwrap();
    assert_eq!(config.base_schedule, Some(vec![0.999, 0.5, 0.0]));
    assert_eq!((config.video_shift, config.audio_shift), (12.0, 3.0));
    for schedule in [json!([]), json!([0.0]), json!([0.5, 0.5, 0.0]), json!([0.9, 0.1]), json!([1.5, 0.0])] {
        let text = read("fl2va", schedule).unwrap_err().to_string();
        assert!(text.contains("sigmas must fall strictly from 1 to 0"), "{text}");
    }
    let text = read("ref2va", Value::Null).unwrap_err().to_string();
    assert!(text.contains("the folder is that of ref2va"), "{text}");
}

#[test]
fn files_that_are_no_object_are_refused_by_name() {
    for (text, message) in [("[1]", "must hold a JSON object"), ("{", "is not valid JSON")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs::write(&path, text).unwrap();
        let error = DitConfig::read(Layout::Original, &path).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("config.json"), "{error}");
    }
    let absent = DitConfig::read(Layout::Original, Path::new("/nonexistent/config.json")).unwrap_err();
    assert!(matches!(absent, Error::Missing { .. }), "{absent}");
}
