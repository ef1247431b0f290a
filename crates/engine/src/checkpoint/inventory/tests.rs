use std::collections::BTreeMap;

use clapboard_h3::Partition;

use super::*;
use crate::checkpoint::Checkpoint;
use crate::checkpoint::tiny::write_tiny;

const DIT: ComponentId = ComponentId::Dit(Partition::Fl2va);

fn released() -> [Inventory; 4] {
    [
        Inventory::dit(DIT, &DitConfig::released()),
        Inventory::text_encoder(&TextEncoderConfig::released()),
        Inventory::video_vae(&VideoVaeConfig::released()),
        Inventory::audio_vae(&AudioVaeConfig::released()),
    ]
}

#[test]
fn released_counts_are_those_of_the_official_converter() {
    let [dit, _, video, audio] = released();
    let count = |inventory: &Inventory, layout| inventory.stored(layout).len();
    assert_eq!([count(&dit, Layout::Original), count(&dit, Layout::Diffusers)], [535, 638]);
    assert_eq!([count(&video, Layout::Original), count(&video, Layout::Diffusers)], [560, 703]);
    assert_eq!([count(&audio, Layout::Original), count(&audio, Layout::Diffusers)], [1087, 1087]);
}

#[test]
fn released_sizes_are_those_of_a_meta_device_count() {
    let [dit, text, video, audio] = released();
    assert_eq!(dit.parameters(), 33_122_992_896);
    assert_eq!(dit.bytes(|_| true), 66_280_430_080);
    let adaln = |name: &str| name.contains(".adaln_proj.");
    let in_block = |name: &str| name.starts_with("blocks.49.");
    assert_eq!(dit.bytes(in_block), 1_291_143_680);
    assert_eq!(dit.bytes(|name| in_block(name) && !adaln(name)), 770_725_376);
    assert_eq!(dit.bytes(|name| name.starts_with("blocks.") && adaln(name)), 26_020_915_200);
    assert_eq!(dit.bytes(|name| name.starts_with("token_refiner.")), 2 * 770_730_752);
    assert_eq!(dit.bytes(|name| name.starts_with("final_layer.adaln_proj.")), 2 * 28_912_128);

    assert_eq!(video.parameters(), 2_603_868_984);
    let encoder = |name: &str| name.starts_with("encoder.") || name.starts_with("quant_conv.");
    assert_eq!(video.bytes(encoder) / 4 + video.bytes(|name| !encoder(name)) / 4, 2_603_868_984);
    assert_eq!(video.bytes(|name| name.starts_with("encoder.")) / 4, 180_335_536);
    assert_eq!(video.bytes(|name| name.starts_with("decoder.")) / 4, 2_423_530_496);

    assert_eq!(audio.parameters(), 151_321_489);
    let text_bytes = text.bytes(|_| true);
    assert!((51_000_000_000..52_000_000_000).contains(&text_bytes), "{text_bytes}");
}

#[test]
fn tiny_checkpoints_of_both_layouts_hold_exactly_what_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    for layout in [Layout::Original, Layout::Diffusers] {
        let out = dir.path().join(layout.as_str());
        write_tiny(0, layout, &out).unwrap();
        let checkpoint = Checkpoint::open(&out).unwrap();
        for id in [
            DIT,
            ComponentId::Dit(Partition::Ref2va),
            ComponentId::TextEncoder,
            ComponentId::VideoVae,
            ComponentId::AudioVae,
        ] {
            let component = checkpoint.component(id).unwrap();
            let inventory = checkpoint.inventory(id).unwrap();
            let report = check(&component, &inventory);
            assert_eq!(report, TensorReport::default(), "{layout} {id}");
            let listed: BTreeMap<String, Vec<usize>> =
                inventory.stored(layout).into_iter().map(|tensor| (tensor.name, tensor.shape)).collect();
            let stored: BTreeMap<String, Vec<usize>> =
                component.stored().map(|raw| (raw.name().to_owned(), raw.shape().to_vec())).collect();
            assert_eq!(listed, stored, "{layout} {id}");
        }
    }
}

#[test]
fn canonical_names_of_a_component_are_unique() {
    for inventory in released() {
        let mut names: Vec<&str> = inventory.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", inventory.component());
    }
}
