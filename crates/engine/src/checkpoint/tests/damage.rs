use std::fs::{self, File};
use std::path::Path;

use clapboard_h3::Partition;
use proptest::prelude::*;
use serde_json::json;

use super::{edit, tiny};
use crate::checkpoint::{
    Checkpoint, ComponentId, Error, Layout, ShardProblem, StoredDtype, TensorReport, inspect, map_file,
};

const DIT: ComponentId = ComponentId::Dit(Partition::Fl2va);

/// Rewrites a safetensors file's header text; the data stay.
fn edit_header(path: &Path, change: impl FnOnce(String) -> String) {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut text = change(String::from_utf8(bytes[8..8 + length].to_vec()).unwrap());
    text += &" ".repeat(text.len().next_multiple_of(8) - text.len());
    let mut edited = (text.len() as u64).to_le_bytes().to_vec();
    edited.extend_from_slice(text.as_bytes());
    edited.extend_from_slice(&bytes[8 + length..]);
    fs::write(path, edited).unwrap();
}

#[test]
fn what_is_no_checkpoint_is_refused_with_what_was_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let error = Checkpoint::open(dir.path()).unwrap_err();
    assert!(matches!(&error, Error::UnknownLayout { .. }), "{error}");
    assert!(error.to_string().contains("FL2VA/transformer/"), "{error}");
    fs::write(dir.path().join("modular_model_index.json"), "{}").unwrap();
    let error = Checkpoint::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("neither transformer/ nor transformer_ref/"), "{error}");
    let file = dir.path().join("file.safetensors");
    fs::write(&file, "x").unwrap();
    assert!(matches!(Checkpoint::open(&file).unwrap_err(), Error::NotADirectory(_)));
    assert!(matches!(Checkpoint::open(&dir.path().join("absent")).unwrap_err(), Error::Io { .. }));
}

#[test]
fn a_truncated_file_is_named_with_the_tensor_it_lacks() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let path = root.join("vae/diffusion_pytorch_model.safetensors");
    let length = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(length - 2).unwrap();
    let checkpoint = Checkpoint::open(&root).unwrap();
    match checkpoint.component(ComponentId::VideoVae).unwrap_err() {
        Error::Shard { path: named, problem: ShardProblem::Truncated { tensor, end, available } } => {
            assert_eq!(named, path);
            assert_eq!(end, available + 2);
            assert_eq!(tensor, "quant_conv.weight");
        }
        other => panic!("{other}"),
    }
    File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    let error = checkpoint.component(ComponentId::VideoVae).unwrap_err();
    assert!(matches!(error, Error::Shard { problem: ShardProblem::HeaderTooLong { .. }, .. }), "{error}");
    fs::write(&path, "").unwrap();
    let error = checkpoint.component(ComponentId::VideoVae).unwrap_err();
    assert!(matches!(error, Error::Shard { problem: ShardProblem::TooShort { length: 0 }, .. }), "{error}");
    fs::write(&path, b"\xff\xff\xff\xff\xff\xff\xff\xff{}").unwrap();
    let error = checkpoint.component(ComponentId::VideoVae).unwrap_err();
    assert!(matches!(error, Error::Shard { problem: ShardProblem::HeaderTooLong { .. }, .. }), "{error}");
    fs::remove_file(&path).unwrap();
    assert!(matches!(checkpoint.component(ComponentId::VideoVae).unwrap_err(), Error::NoShards { .. }));
}

#[test]
fn a_missing_tensor_is_named_canonically_and_as_stored() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let shard = root.join("transformer/diffusion_pytorch_model-00002-of-00002.safetensors");
    edit_header(&shard, |text| {
        text.replace("transformer_blocks.1.attn.to_k.weight", "transformer_blocks.1.attn.to_K.weight")
    });
    let checkpoint = Checkpoint::open(&root).unwrap();
    let component = checkpoint.component(DIT).unwrap();
    let error = component.get("blocks.1.attn.qkv_proj.weight").unwrap_err();
    assert_eq!(
        error.to_string(),
        "dit/fl2va has no tensor blocks.1.attn.qkv_proj.weight (stored as transformer_blocks.1.attn.to_k.weight); \
         the weight index places it in diffusion_pytorch_model-00002-of-00002.safetensors"
    );
    assert!(!component.contains("blocks.1.attn.qkv_proj.weight"));
    let error = checkpoint.checked_component(DIT).unwrap_err();
    assert!(error.to_string().contains("missing transformer_blocks.1.attn.to_k.weight"), "{error}");
    let inspection = inspect(&root).unwrap();
    let report = &inspection.components[0].report;
    assert_eq!(report.missing, ["transformer_blocks.1.attn.to_k.weight"]);
    assert_eq!(report.unknown, ["transformer_blocks.1.attn.to_K.weight"]);
    assert!(!inspection.is_usable());
    let page = inspection.to_string();
    assert!(page.contains("dit/fl2va: missing transformer_blocks.1.attn.to_k.weight"), "{page}");
    assert!(page.ends_with("cannot be served"), "{page}");
}

#[test]
fn wrong_shapes_and_types_are_named() {
    let (_dir, root) = tiny(Layout::Original);
    let path = root.join("FL2VA/audio_vae/model.safetensors");
    edit_header(&path, |text| {
        let text = text.replace(
            r#""mean_proj.weight":{"dtype":"F32","shape":[32,32,1]"#,
            r#""mean_proj.weight":{"dtype":"F32","shape":[32,1,32]"#,
        );
        text.replace(r#""mean_proj.bias":{"dtype":"F32""#, r#""mean_proj.bias":{"dtype":"I32""#)
    });
    let checkpoint = Checkpoint::open(&root).unwrap();
    let component = checkpoint.component(ComponentId::AudioVae).unwrap();
    let error = component.expect("mean_proj.weight", &[32, 32, 1], &[StoredDtype::F32]).unwrap_err();
    assert_eq!(error.to_string(), "tensor mean_proj.weight of audio_vae has shape [32, 1, 32], expected [32, 32, 1]");
    let error = component.expect("mean_proj.bias", &[32], &[StoredDtype::F32, StoredDtype::BF16]).unwrap_err();
    assert_eq!(error.to_string(), "tensor mean_proj.bias of audio_vae is I32, expected F32 or BF16");
    assert_eq!(component.get("mean_proj.bias").unwrap().to_f32(), None);
    let error = checkpoint.checked_component(ComponentId::AudioVae).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("mean_proj.weight has shape") && text.contains("mean_proj.bias is I32"), "{text}");
}

#[test]
fn a_tensor_in_two_files_is_refused() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let folder = root.join("audio_vae");
    fs::copy(folder.join("diffusion_pytorch_model.safetensors"), folder.join("model.safetensors")).unwrap();
    let error = Checkpoint::open(&root).unwrap().component(ComponentId::AudioVae).unwrap_err();
    assert!(matches!(&error, Error::TwiceStored { tensor, .. } if tensor == "dec_in_proj.bias"), "{error}");
}

#[test]
fn a_config_that_contradicts_the_weights_is_refused_with_names() {
    let (_dir, root) = tiny(Layout::Diffusers);
    edit(&root.join("transformer/config.json"), |config| {
        config["ffn_dim"] = json!(96);
        config["num_layers"] = json!(4);
    });
    let checkpoint = Checkpoint::open(&root).unwrap();
    match checkpoint.checked_component(DIT).unwrap_err() {
        Error::Unfit { component, report } => {
            assert_eq!(component, DIT);
            assert_eq!(report.wrong_shape.len(), 10, "fc1 and fc2 of three blocks and two refiner blocks");
            assert!(report.missing.iter().all(|name| name.starts_with("transformer_blocks.3.")));
            assert_eq!(report.missing.len(), 12);
        }
        other => panic!("{other}"),
    }
    checkpoint.checked_component(ComponentId::Dit(Partition::Ref2va)).unwrap();
}

#[test]
fn weights_of_parts_that_the_config_does_not_count_are_refused() {
    let video_vae = ComponentId::VideoVae;
    for (layout, folder, key, list, id) in [
        (Layout::Original, "FL2VA/transformer", "num_layers", "blocks", DIT),
        (Layout::Original, "FL2VA/transformer", "token_refiner_num_layers", "token_refiner.blocks", DIT),
        (Layout::Diffusers, "transformer", "num_layers", "transformer_blocks", DIT),
        (Layout::Diffusers, "transformer", "num_refiner_layers", "token_refiner.refiner_blocks", DIT),
        (Layout::Diffusers, "vae", "decoder_num_layers", "decoder.transformer_blocks", video_vae),
    ] {
        let (_dir, root) = tiny(layout);
        edit(&root.join(folder).join("config.json"), |config| {
            assert!(config[key].as_u64() > Some(1), "{key}");
            config[key] = json!(1);
        });
        match Checkpoint::open(&root).unwrap().checked_component(id).unwrap_err() {
            Error::Unfit { report, .. } => {
                assert!(report.missing.is_empty() && report.unknown.is_empty(), "{report}");
                assert!(report.beyond_config.iter().all(|beyond| beyond.list == list && beyond.count == 1), "{report}");
                assert!(!report.beyond_config.is_empty());
            }
            other => panic!("{other}"),
        }
        let inspection = inspect(&root).unwrap();
        assert!(!inspection.is_usable());
        let page = inspection.to_string();
        assert!(page.contains(&format!("is stored, the config has 1 {list}")), "{page}");
    }
}

#[test]
fn layers_past_the_conditioning_may_be_more_than_the_config_says() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let shard = root.join("text_encoder/model.safetensors");
    edit_header(&shard, |text| {
        let at = text.find('{').unwrap() + 1;
        let more =
            r#""model.language_model.layers.99.mlp.up_proj.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"#;
        format!("{}{more}{}", &text[..at], &text[at..])
    });
    let inspection = inspect(&root).unwrap();
    assert!(inspection.is_usable(), "{inspection}");
    let text = inspection.components.iter().find(|c| c.component == ComponentId::TextEncoder).unwrap();
    assert_eq!(text.report.unknown, ["model.language_model.layers.99.mlp.up_proj.weight"]);
}

#[test]
fn configs_that_contradict_each_other_are_refused_together() {
    let (_dir, root) = tiny(Layout::Diffusers);
    edit(&root.join("transformer/config.json"), |config| config["text_dim"] = json!(64));
    edit(&root.join("transformer_ref/config.json"), |config| config["audio_in_channels"] = json!(16));
    let error = Checkpoint::open(&root).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("text width: dit/fl2va has 64, text_encoder has 40"), "{text}");
    assert!(text.contains("audio latent channels: dit/ref2va has 16, audio_vae has 32"), "{text}");
}

#[test]
fn missing_components_and_files_are_named() {
    let (_dir, root) = tiny(Layout::Original);
    for partition in ["FL2VA", "Ref2VA"] {
        fs::remove_dir_all(root.join(partition).join("audio_vae")).unwrap();
        fs::remove_file(root.join(partition).join("tokenizer/tokenizer.json")).unwrap();
    }
    let error = Checkpoint::open(&root).unwrap_err();
    assert!(error.to_string().contains("FL2VA/audio_vae/config.json"), "{error}");
    let inspection = inspect(&root).unwrap();
    let audio = inspection.components.iter().find(|c| c.component == ComponentId::AudioVae).unwrap();
    assert!(audio.problem.as_ref().unwrap().contains("audio_vae"), "{inspection}");
    let others = inspection.components.iter().filter(|c| c.component != ComponentId::AudioVae);
    assert!(others.into_iter().all(|component| component.report == TensorReport::default() && component.bytes > 0));

    let (_dir, root) = tiny(Layout::Diffusers);
    fs::remove_file(root.join("tokenizer/tokenizer.json")).unwrap();
    let error = Checkpoint::open(&root).unwrap().tokenizer_path().unwrap_err();
    assert!(error.to_string().starts_with("tokenizer is missing: expected "), "{error}");
}

#[test]
fn broken_settings_are_refused() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let path = root.join("clapboard.json");
    for (pointer, value, message) in [
        ("/geometry/canvas_multiple", json!(48), "canvas_multiple must be a positive multiple of 32"),
        ("/geometry/min_duration_seconds", json!(20.0), "0 < min <= max"),
        ("/geometry/max_duration_seconds", json!(1e308), "0 < min <= max"),
        ("/defaults/num_inference_steps", json!(1), "must be in 2..=200"),
        ("/defaults", json!({}), "missing keys: defaults.num_frames, defaults.num_inference_steps"),
    ] {
        let before = fs::read(&path).unwrap();
        edit(&path, |settings| *settings.pointer_mut(pointer).unwrap() = value);
        let error = Checkpoint::open(&root).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("clapboard.json"), "{error}");
        fs::write(&path, before).unwrap();
    }
}

#[test]
fn distilled_releases_that_need_sparse_attention_are_refused() {
    let (_dir, root) = tiny(Layout::Diffusers);
    fs::rename(root.join("modular_model_index.json"), root.join("fastvideo_inference.json")).unwrap();
    let error = Checkpoint::open(&root).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let inspection = inspect(&root).unwrap();
    assert_eq!(inspection.layout, Layout::Diffusers);
    assert!(inspection.problem.unwrap().contains("sparse attention"));
}

/// A sound file of three tensors, as bytes.
fn small_file() -> Vec<u8> {
    let header = r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"c":{"dtype":"U8","shape":[0],"data_offsets":[32,32]}}"#;
    let mut header = header.to_owned();
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(0..32_u8);
    bytes
}

proptest! {
    #[test]
    fn no_damage_to_a_file_gets_past_the_header(
        flips in prop::collection::vec((0_usize..220, any::<u8>()), 0..4),
        length in prop::option::of(0_usize..260),
    ) {
        let mut bytes = small_file();
        for (place, value) in flips {
            let place = place % bytes.len();
            bytes[place] = value;
        }
        if let Some(length) = length {
            bytes.resize(length, 0);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.safetensors");
        fs::write(&path, &bytes).unwrap();
        match map_file(&path) {
            Ok(tensors) => {
                for tensor in tensors {
                    let elements: usize = tensor.shape().iter().product();
                    prop_assert_eq!(tensor.bytes().len(), elements * tensor.dtype().size());
                    prop_assert_eq!(tensor.bytes(), &bytes[tensor.file_range()]);
                }
            }
            Err(Error::Shard { path: named, .. }) => prop_assert_eq!(named, path),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
