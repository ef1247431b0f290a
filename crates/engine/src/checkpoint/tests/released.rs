use clapboard_h3::Partition;

use crate::checkpoint::tiny::write_sparse_released;
use crate::checkpoint::{Checkpoint, ComponentId, DitSizes, Layout, TensorReport, TextEncoderConfig, inspect};

#[test]
fn a_checkpoint_of_released_shape_is_inspected_exactly() {
    let dir = tempfile::tempdir().unwrap();
    for (layout, tensors) in [(Layout::Original, [535, 560]), (Layout::Diffusers, [638, 703])] {
        let root = dir.path().join(layout.as_str());
        write_sparse_released(layout, &root).unwrap();
        let inspection = inspect(&root).unwrap();
        assert!(inspection.is_usable(), "{inspection}");
        assert!(
            inspection.components.iter().all(|component| component.report == TensorReport::default()),
            "{inspection}"
        );
        assert_eq!(inspection.partitions, [Partition::Fl2va, Partition::Ref2va]);
        let find = |id| inspection.components.iter().find(|component| component.component == id).unwrap();
        for partition in [Partition::Fl2va, Partition::Ref2va] {
            let dit = find(ComponentId::Dit(partition));
            assert_eq!(dit.tensors, tensors[0]);
            assert_eq!(dit.parameters, 33_122_992_896);
            assert_eq!(dit.bytes, 66_280_430_080);
            assert_eq!(
                dit.dit,
                Some(DitSizes {
                    blocks: 50,
                    block_bytes: 1_291_143_680,
                    block_bytes_without_adaln: 770_725_376,
                    adaln_bytes: 26_020_915_200,
                    rest_bytes: 66_280_430_080 - 50 * 1_291_143_680,
                })
            );
        }
        let video = find(ComponentId::VideoVae);
        assert_eq!((video.tensors, video.parameters, video.bytes), (tensors[1], 2_603_868_984, 4 * 2_603_868_984));
        let audio = find(ComponentId::AudioVae);
        assert_eq!((audio.tensors, audio.parameters), (1087, 151_321_489));
        let text = find(ComponentId::TextEncoder);
        assert!(text.unread_bytes > 14 * 900_000_000, "fourteen layers and the head are not read");
        let page = inspection.to_string();
        for line in ["66,280,430,080 (61.73 GiB)", "770,725,376 (735.02 MiB)", "checkpoint is complete"] {
            assert!(page.contains(line), "{page}");
        }
        let json = serde_json::to_value(&inspection).unwrap();
        assert_eq!(json["layout"], layout.as_str());
        assert_eq!(json["components"][0]["component"], "dit/fl2va");
        assert_eq!(json["components"][0]["dit"]["block_bytes"], 1_291_143_680_u64);
    }
}

#[test]
fn released_tensors_are_readable_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("released");
    write_sparse_released(Layout::Diffusers, &root).unwrap();
    let checkpoint = Checkpoint::open(&root).unwrap();
    assert_eq!(checkpoint.text_encoder(), &TextEncoderConfig::released());
    let component = checkpoint.component(ComponentId::Dit(Partition::Fl2va)).unwrap();
    let qkv = component.get("blocks.49.attn.qkv_proj.weight").unwrap();
    assert_eq!(qkv.shape, [21504, 5376]);
    assert_eq!(qkv.pieces[2].bytes().last(), Some(&0));
}
