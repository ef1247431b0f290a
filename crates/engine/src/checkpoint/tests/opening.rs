use std::fs;
use std::os::unix::fs::symlink;

use clapboard_h3::{GeometryProfile, Partition};
use serde_json::json;

use super::{edit, tiny};
use crate::checkpoint::{
    Checkpoint, ComponentId, Error, GateOrder, Layout, Location, QkvRows, StoredDtype, TINY_NAME, inspect,
};

const DIT: ComponentId = ComponentId::Dit(Partition::Fl2va);

#[test]
fn both_layouts_open_with_both_partitions() {
    for layout in [Layout::Original, Layout::Diffusers] {
        let (_dir, root) = tiny(layout);
        let checkpoint = Checkpoint::open(&root).unwrap();
        assert_eq!(checkpoint.layout(), layout);
        assert_eq!(checkpoint.partitions(), [Partition::Fl2va, Partition::Ref2va]);
        assert!(checkpoint.tokenizer_path().unwrap().ends_with("tokenizer/tokenizer.json"));
        let profile = checkpoint.profile(&checkpoint.partitions()).unwrap();
        assert_eq!(profile.name, TINY_NAME);
        assert_eq!(profile.geometry.canvas_max_pixels, 96 * 64);
        assert_eq!(profile.defaults.num_frames.t2va.get(), 22);
        assert_eq!(profile.defaults.num_inference_steps, 4);
        assert_eq!((profile.shifts.video, profile.shifts.audio), (12.0, 3.0));
    }
}

#[test]
fn without_settings_a_checkpoint_has_the_released_geometry() {
    let (_dir, root) = tiny(Layout::Diffusers);
    fs::remove_file(root.join("clapboard.json")).unwrap();
    let profile = Checkpoint::open(&root).unwrap().profile(&[Partition::Fl2va]).unwrap();
    assert_eq!(profile.name, "minimax-h3");
    assert_eq!(profile.geometry, GeometryProfile::released());
    assert_eq!(profile.partitions, [Partition::Fl2va]);
}

#[test]
fn layouts_hold_the_same_values_in_the_stated_row_orders() {
    let (_a, original) = tiny(Layout::Original);
    let (_b, diffusers) = tiny(Layout::Diffusers);
    let open = |root| Checkpoint::open(root).unwrap();
    let (original, diffusers) = (open(&original), open(&diffusers));
    for (id, fused, gated, heads) in [
        (DIT, "blocks.1.attn.qkv_proj.weight", "blocks.1.mlp.fc1.weight", 4),
        (DIT, "token_refiner.blocks.0.attn.qkv_proj.weight", "token_refiner.blocks.0.mlp.fc1.weight", 4),
        (
            ComponentId::VideoVae,
            "decoder.transformer_blocks.1.attn.to_qkv.bias",
            "decoder.transformer_blocks.1.ff.w1.bias",
            2,
        ),
    ] {
        let (per_head, grouped) = (original.component(id).unwrap(), diffusers.component(id).unwrap());
        assert_eq!((per_head.qkv_rows(), per_head.gate_order()), (QkvRows::PerHead, GateOrder::GateFirst));
        assert_eq!((grouped.qkv_rows(), grouped.gate_order()), (QkvRows::Grouped, GateOrder::UpFirst));
        let (a, b) = (per_head.get(fused).unwrap(), grouped.get(fused).unwrap());
        assert_eq!((a.pieces.len(), b.pieces.len()), (1, 3));
        assert_eq!((&a.shape, a.dtype), (&b.shape, b.dtype));
        let (a, b) = (a.to_f32().unwrap(), b.to_f32().unwrap());
        let head = a.len() / (3 * heads);
        for i in 0..heads {
            for part in 0..3 {
                let (from, to) = ((3 * i + part) * head, (part * heads + i) * head);
                assert_eq!(a[from..from + head], b[to..to + head], "{fused} head {i} part {part}");
            }
        }
        let (a, b) = (per_head.get(gated).unwrap().to_f32().unwrap(), grouped.get(gated).unwrap().to_f32().unwrap());
        let half = a.len() / 2;
        assert_eq!((&a[..half], &a[half..]), (&b[half..], &b[..half]), "{gated}");
    }
    for id in [ComponentId::TextEncoder, ComponentId::AudioVae] {
        let (a, b) = (original.component(id).unwrap(), diffusers.component(id).unwrap());
        assert!(a.stored().zip(b.stored()).all(|(a, b)| a.name() == b.name() && a.bytes() == b.bytes()));
    }
}

#[test]
fn every_listed_tensor_is_readable_by_its_canonical_name() {
    for layout in [Layout::Original, Layout::Diffusers] {
        let (_dir, root) = tiny(layout);
        let checkpoint = Checkpoint::open(&root).unwrap();
        for id in [DIT, ComponentId::TextEncoder, ComponentId::VideoVae, ComponentId::AudioVae] {
            let component = checkpoint.checked_component(id).unwrap();
            for tensor in checkpoint.inventory(id).unwrap().tensors() {
                if component.contains(&tensor.name) {
                    component.expect(&tensor.name, &tensor.shape, &[tensor.dtype]).unwrap();
                } else {
                    let dropped = ["rope.inv_freq", "decoder.mask_token"];
                    assert!(layout == Layout::Diffusers && dropped.contains(&tensor.name.as_str()), "{}", tensor.name);
                }
            }
        }
    }
}

#[test]
fn tensors_outlive_their_component() {
    let (_dir, root) = tiny(Layout::Diffusers);
    let stored = {
        let checkpoint = Checkpoint::open(&root).unwrap();
        checkpoint.component(DIT).unwrap().get("blocks.0.norm1.weight").unwrap()
    };
    assert_eq!((stored.dtype, stored.shape.as_slice()), (StoredDtype::BF16, &[48][..]));
    assert!(stored.to_f32().unwrap().iter().all(|value| (0.5..1.5).contains(value)));
}

#[test]
fn one_partition_folder_opens_alone_and_borrows_from_its_sibling() {
    let (_dir, root) = tiny(Layout::Original);
    for (folder, partition) in [("FL2VA", Partition::Fl2va), ("Ref2VA", Partition::Ref2va)] {
        let checkpoint = Checkpoint::open(&root.join(folder)).unwrap();
        assert_eq!(checkpoint.partitions(), [partition]);
        assert_eq!(checkpoint.settings().name, TINY_NAME, "settings lie beside the partitions");
        let error = checkpoint.component(ComponentId::Dit(other(partition))).unwrap_err();
        assert!(matches!(error, Error::NoPartition { .. }), "{error}");
    }
    for shared in ["text_encoder", "tokenizer", "video_vae", "audio_vae"] {
        fs::remove_dir_all(root.join("Ref2VA").join(shared)).unwrap();
    }
    for dir in [root.join("Ref2VA"), root.clone()] {
        let checkpoint = Checkpoint::open(&dir).unwrap();
        checkpoint.checked_component(ComponentId::Dit(Partition::Ref2va)).unwrap();
        checkpoint.checked_component(ComponentId::TextEncoder).unwrap();
        checkpoint.tokenizer_path().unwrap();
    }
    let renamed = root.parent().unwrap().join("my-partition");
    fs::rename(root.join("FL2VA"), &renamed).unwrap();
    assert_eq!(Checkpoint::open(&renamed).unwrap().partitions(), [Partition::Fl2va]);
}

fn other(partition: Partition) -> Partition {
    match partition {
        Partition::Fl2va => Partition::Ref2va,
        Partition::Ref2va => Partition::Fl2va,
    }
}

#[test]
fn a_single_transformer_of_either_layout_is_enough() {
    let (_dir, root) = tiny(Layout::Diffusers);
    fs::remove_dir_all(root.join("transformer")).unwrap();
    assert_eq!(Checkpoint::open(&root).unwrap().partitions(), [Partition::Ref2va]);
    let (_dir, root) = tiny(Layout::Original);
    fs::remove_dir_all(root.join("Ref2VA")).unwrap();
    assert_eq!(Checkpoint::open(&root).unwrap().partitions(), [Partition::Fl2va]);
}

#[test]
fn an_advertised_class_does_not_make_a_diffusers_checkpoint() {
    let (_dir, root) = tiny(Layout::Original);
    let advertised = json!({ "_class_name": "MiniMaxH3ModularPipeline" });
    fs::write(root.join("model_index.json"), advertised.to_string()).unwrap();
    assert_eq!(Location::detect(&root).unwrap().layout(), Layout::Original);
    fs::write(root.join("modular_model_index.json"), "{}").unwrap();
    assert_eq!(Location::detect(&root).unwrap().layout(), Layout::Original, "no diffusers transformer is there");
    fs::create_dir(root.join("transformer")).unwrap();
    assert_eq!(Location::detect(&root).unwrap().layout(), Layout::Diffusers);
}

#[test]
fn symbolic_links_are_followed() {
    let (dir, root) = tiny(Layout::Original);
    let link = dir.path().join("link");
    symlink(&root, &link).unwrap();
    let shard = root.join("FL2VA/audio_vae/model.safetensors");
    let blob = dir.path().join("blob");
    fs::rename(&shard, &blob).unwrap();
    symlink(&blob, &shard).unwrap();
    fs::remove_dir_all(root.join("Ref2VA/transformer")).unwrap();
    symlink(root.join("FL2VA/transformer"), root.join("Ref2VA/transformer")).unwrap();
    let inspection = inspect(&link).unwrap();
    assert!(inspection.is_usable(), "{inspection}");
}

#[test]
fn partitions_with_different_schedules_are_served_apart() {
    let (_dir, root) = tiny(Layout::Original);
    edit(&root.join("Ref2VA/model_index.json"), |index| {
        index["_minimax_h3"]["base_schedule"] = json!([0.999, 0.5, 0.0]);
    });
    let checkpoint = Checkpoint::open(&root).unwrap();
    let error = checkpoint.profile(&checkpoint.partitions()).unwrap_err();
    assert!(error.to_string().contains("different schedules"), "{error}");
    let profile = checkpoint.profile(&[Partition::Ref2va]).unwrap();
    assert_eq!(profile.base_schedule, Some(vec![0.999, 0.5, 0.0]));
    assert_eq!(checkpoint.profile(&[Partition::Fl2va]).unwrap().base_schedule, None);
}
