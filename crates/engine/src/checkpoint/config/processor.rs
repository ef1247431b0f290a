//! The processor's config: how pictures and videos become patches for the vision tower.

use std::path::Path;

use serde::Serialize;

use super::fields::Fields;
use crate::checkpoint::error::Error;
use crate::checkpoint::layout::is_file;

/// How both kinds of pixels are prepared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProcessorConfig {
    /// For pictures.
    pub image: PixelConfig,
    /// For videos.
    pub video: PixelConfig,
}

/// How one kind of pixels is resized, normalised and cut into patches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PixelConfig {
    /// The fewest pixels a picture may have, or all frames of a video together.
    pub min_pixels: u64,
    /// The most pixels.
    pub max_pixels: u64,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Frames of a patch.
    pub temporal_patch_size: usize,
    /// Patches per side that become one token.
    pub merge_size: usize,
    /// What a byte is multiplied with first.
    pub rescale_factor: f64,
    /// What is then subtracted from red, green and blue.
    pub mean: [f32; 3],
    /// What they are then divided by.
    pub std: [f32; 3],
}

/// The file that recent writers put both processors into.
const TOGETHER: &str = "processor_config.json";

/// The files of older writers, pictures first.
const APART: [&str; 2] = ["preprocessor_config.json", "video_preprocessor_config.json"];

impl PixelConfig {
    /// Returns what sides are multiples of, in pixels: a merged patch.
    pub fn factor(&self) -> usize {
        self.patch_size * self.merge_size
    }

    /// Returns patch side, frames of a patch and merged patches per side, as the vision tower's config counts them.
    pub(in crate::checkpoint) fn patch(&self) -> [usize; 3] {
        [self.patch_size, self.temporal_patch_size, self.merge_size]
    }
}

impl ProcessorConfig {
    /// Reads the processor's folder: `processor_config.json` with both processors in it, or one file for each.
    ///
    /// Errors: [`Error::Missing`] without any such file, [`Error::Config`] with every missing key, wrong type or broken
    /// rule.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let together = folder.join(TOGETHER);
        if is_file(&together)? {
            let mut fields = Fields::open(&together)?;
            if fields.has("image_processor") || fields.has("video_processor") {
                let image = read_pixels(&mut fields, "image_processor.");
                let video = read_pixels(&mut fields, "video_processor.");
                fields.ignore(&["processor_class"]);
                return fields.finish(Self { image, video });
            }
        }
        let [image, video] = APART.map(|name| folder.join(name));
        if !is_file(&image)? {
            return Err(Error::Missing { what: "processor".to_owned(), path: together });
        }
        let read = |path: &Path| {
            let mut fields = Fields::open(path)?;
            let pixels = read_pixels(&mut fields, "");
            fields.finish(pixels)
        };
        Ok(Self { image: read(&image)?, video: read(&video)? })
    }
}

/// Reads the keys that begin with `scope`.
fn read_pixels(fields: &mut Fields, scope: &str) -> PixelConfig {
    let key = |name: &str| format!("{scope}{name}");
    let mut config = PixelConfig {
        min_pixels: fields.pixels_at(&[&key("min_pixels"), &key("size.shortest_edge")]),
        max_pixels: fields.pixels_at(&[&key("max_pixels"), &key("size.longest_edge")]),
        patch_size: fields.size(&key("patch_size")),
        temporal_patch_size: fields.size(&key("temporal_patch_size")),
        merge_size: fields.size(&key("merge_size")),
        rescale_factor: fields.positive_or(&key("rescale_factor"), 1.0 / 255.0),
        mean: [0.0; 3],
        std: [1.0; 3],
    };
    let lists = [("image_mean", &mut config.mean), ("image_std", &mut config.std)];
    for (name, channels) in lists {
        let values = fields.reals(&key(name));
        match <[f32; 3]>::try_from(values.as_slice()) {
            Ok(values) => *channels = values,
            Err(_) => fields.rule(false, || format!("{} must have three entries, found {values:?}", key(name))),
        }
    }
    let (min, max) = (config.min_pixels, config.max_pixels);
    fields.rule(min <= max, || format!("{scope}size: the fewest pixels {min} exceed the most, {max}"));
    let factor = config.factor() as u64;
    fields.rule(factor * factor * config.temporal_patch_size as u64 <= max, || {
        format!("{scope}size: {max} pixels do not hold one token of {factor}x{factor} pixels")
    });
    fields.rule(config.std.iter().all(|std| *std > 0.0), || format!("{} must be positive", key("image_std")));
    for name in ["do_resize", "do_rescale", "do_normalize"] {
        let done = fields.flag_or(&key(name), true);
        fields.rule(done, || format!("{} must be true", key(name)));
    }
    let bicubic = fields.size_or(&key("resample"), 3);
    fields.rule(bicubic == 3, || format!("{} must be 3, bicubic, found {bicubic}", key("resample")));
    // The reader of the release leaves it unset, which means no cap.
    let capped = fields.flag_or(&key("cap_pixels_per_frame"), false);
    fields.rule(!capped, || format!("{} must be false or absent", key("cap_pixels_per_frame")));
    let unused = [
        "size",
        "do_convert_rgb",
        "image_processor_type",
        "video_processor_type",
        "processor_class",
        "do_sample_frames",
        "fps",
        "max_frames",
        "min_frames",
        "max_video_tokens",
        "return_metadata",
        "default_to_square",
        "data_format",
    ];
    fields.ignore(&unused.map(&key).each_ref().map(String::as_str));
    config
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;
    use crate::checkpoint::error::ConfigProblem;

    fn golden() -> Value {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/golden/configs/diffusers/processor/processor_config.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Reads a folder of the given files.
    fn read(files: &[(&str, &Value)]) -> Result<ProcessorConfig, Error> {
        let folder = tempfile::tempdir().unwrap();
        for (name, value) in files {
            std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        }
        ProcessorConfig::read(folder.path())
    }

    #[test]
    fn both_arrangements_of_files_read_alike() {
        let golden = golden();
        let together = read(&[(TOGETHER, &golden)]).unwrap();
        let (image, video) = (&golden["image_processor"], &golden["video_processor"]);
        // Older writers keep a file of that name for the processor's class alone.
        let class = json!({ "processor_class": "Qwen3VLProcessor" });
        assert_eq!(read(&[(TOGETHER, &class), (APART[0], image), (APART[1], video)]).unwrap(), together);
        assert_eq!((together.image.min_pixels, together.image.max_pixels), (4096, 16_777_216));
        assert_eq!((together.video.max_pixels, together.video.factor()), (25_165_824, 32));
        assert_eq!((together.image.mean, together.video.std), ([0.5; 3], [0.5; 3]));
    }

    #[test]
    fn explicit_pixel_bounds_come_before_the_size() {
        let mut golden = golden();
        golden["image_processor"]["min_pixels"] = json!(1024);
        golden["image_processor"]["max_pixels"] = json!(null);
        let image = read(&[(TOGETHER, &golden)]).unwrap().image;
        assert_eq!((image.min_pixels, image.max_pixels), (1024, 16_777_216));
    }

    #[test]
    fn what_would_be_computed_differently_is_refused() {
        for (key, value) in [
            ("do_resize", json!(false)),
            ("resample", json!(2)),
            ("image_std", json!([0.5, 0.5, 0.0])),
            ("image_mean", json!([0.5])),
            ("cap_pixels_per_frame", json!(true)),
            ("max_pixels", json!(512)),
        ] {
            let mut golden = golden();
            golden["video_processor"][key] = value;
            let refused = read(&[(TOGETHER, &golden)]).unwrap_err();
            let Error::Config { problems, .. } = refused else { panic!("{key}: {refused}") };
            let [ConfigProblem::Rule(rule), ..] = problems.as_slice() else { panic!("{key}: {problems:?}") };
            assert!(rule.contains("video_processor"), "{rule}");
        }
    }

    #[test]
    fn a_folder_without_any_file_names_the_first() {
        let missing = read(&[]).unwrap_err();
        assert!(missing.to_string().contains(TOGETHER), "{missing}");
    }
}
