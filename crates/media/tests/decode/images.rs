use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clapboard_media::decode::image::{self, HeifTool};
use clapboard_media::decode::{Claim, Error, Format};

use crate::bench::{Bench, IMAGE_LIMITS, NEVER, NO_CLAIM, assert_near, pixel};

const RED: [u8; 3] = [200, 40, 60];
const BLUE: [u8; 3] = [20, 90, 180];
/// What Pillow makes of the CMYK fixture's planes when they are taken for YCCK.
const YCCK_LEFT: [u8; 3] = [81, 225, 134];
const YCCK_RIGHT: [u8; 3] = [91, 0, 0];
/// 48x32, the left half red and the right blue.
const HALVES: &str = "-f lavfi -i color=0xC8283C:s=24x32:d=0.04,format=rgb24[l];color=0x145AB4:s=24x32:d=0.04,format=rgb24[r];[l][r]hstack -frames:v 1";

/// A JPEG with an EXIF orientation written behind its start marker.
pub(crate) fn with_orientation(jpeg: &[u8], orientation: u8, little_endian: bool) -> Vec<u8> {
    let tiff: Vec<u8> = if little_endian {
        [b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0", &[orientation, 0, 0, 0, 0, 0, 0, 0][..]].concat()
    } else {
        [b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01", &[0, orientation, 0, 0, 0, 0, 0, 0][..]].concat()
    };
    let length = (2 + 6 + tiff.len() as u16).to_be_bytes();
    [&jpeg[..2], b"\xFF\xE1", &length, b"Exif\0\0", &tiff, &jpeg[2..]].concat()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decode/fixtures").join(name)).unwrap()
}

#[test]
fn every_format_keeps_its_colours() {
    let bench = Bench::new();
    let files = [
        (Format::Jpeg, 6, bench.make(&format!("{HALVES} -pix_fmt yuvj444p -q:v 1 -f mjpeg"), "baseline")),
        (Format::Png, 1, bench.make(&format!("{HALVES} -f image2pipe -c:v png"), "rgb")),
        (Format::Png, 1, bench.make(&format!("{HALVES} -pix_fmt rgb48be -f image2pipe -c:v png"), "rgb16")),
        (Format::Png, 1, bench.make(&format!("{HALVES} -pix_fmt rgba64be -f image2pipe -c:v png"), "rgba16")),
        (
            Format::Png,
            1,
            bench.make(
                &format!("{HALVES} -vf split[a][b];[a]palettegen[p];[b][p]paletteuse -f image2pipe -c:v png"),
                "palette",
            ),
        ),
        (Format::WebP, 1, bench.make(&format!("{HALVES} -c:v libwebp -lossless 1 -pix_fmt bgra -f webp"), "lossless")),
        (Format::WebP, 8, bench.make(&format!("{HALVES} -c:v libwebp -quality 95 -f webp"), "lossy")),
    ];
    for (format, tolerance, path) in files {
        let facts = bench.inspect_image(&path).unwrap();
        assert_eq!((facts.format, facts.width, facts.height, facts.turned), (format, 48, 32, false));
        let decoded = bench.image(&path).unwrap();
        assert_near(pixel(&decoded.rgb, 48, 4, 16), RED, tolerance);
        assert_near(pixel(&decoded.rgb, 48, 43, 16), BLUE, tolerance);
    }
}

#[test]
fn progressive_and_cmyk_jpegs_are_read() {
    let bench = Bench::new();
    let decoded = bench.image(&bench.write("progressive", fixture("progressive.jpg"))).unwrap();
    assert_near(pixel(&decoded.rgb, 32, 4, 8), RED, 3);
    assert_near(pixel(&decoded.rgb, 32, 28, 8), BLUE, 3);

    // 200, 100, 50, 30 and 10, 60, 220, 90 of ink: (1 - c)(1 - k).
    let decoded = bench.image(&bench.write("cmyk", fixture("cmyk.jpg"))).unwrap();
    assert_near(pixel(&decoded.rgb, 32, 4, 8), [49, 137, 181], 3);
    assert_near(pixel(&decoded.rgb, 32, 28, 8), [159, 126, 23], 3);

    // The same planes taken for YCCK: the last byte of Adobe's marker is the transform.
    let mut ycck = fixture("cmyk.jpg");
    let adobe = ycck.windows(5).position(|word| word == b"Adobe").unwrap();
    ycck[adobe + 11] = 2;
    let decoded = bench.image(&bench.write("ycck", ycck)).unwrap();
    assert_near(pixel(&decoded.rgb, 32, 4, 8), YCCK_LEFT, 4);
    assert_near(pixel(&decoded.rgb, 32, 28, 8), YCCK_RIGHT, 4);
}

#[test]
fn every_exif_orientation_is_applied_in_either_byte_order() {
    let bench = Bench::new();
    // Four colours in the corners: 0 1 over 2 3.
    let corners = [[250, 250, 250], [10, 10, 10], [200, 40, 60], [20, 90, 180]];
    let mut quarters = ::image::RgbImage::new(48, 32);
    for (x, y, colour) in quarters.enumerate_pixels_mut() {
        colour.0 = corners[usize::from(x >= 24) + 2 * usize::from(y >= 16)];
    }
    let mut jpeg = std::io::Cursor::new(Vec::new());
    ::image::codecs::jpeg::JpegEncoder::new_with_quality(&mut jpeg, 98).encode_image(&quarters).unwrap();
    let jpeg = jpeg.into_inner();
    let expected = [
        [0, 1, 2, 3],
        [1, 0, 3, 2],
        [3, 2, 1, 0],
        [2, 3, 0, 1],
        [0, 2, 1, 3],
        [2, 0, 3, 1],
        [3, 1, 2, 0],
        [1, 3, 0, 2],
    ];
    for (orientation, expected) in (1..).zip(expected) {
        let path = bench.write("turned", with_orientation(&jpeg, orientation, orientation % 2 == 0));
        assert_eq!(bench.inspect_image(&path).unwrap().turned, orientation != 1);
        let decoded = bench.image(&path).unwrap();
        let (width, height) = if orientation < 5 { (48, 32) } else { (32, 48) };
        assert_eq!((decoded.width, decoded.height), (width, height));
        for (corner, colour) in expected.into_iter().enumerate() {
            let (x, y) = (corner as u32 % 2 * (width - 9) + 4, corner as u32 / 2 * (height - 9) + 4);
            assert_near(pixel(&decoded.rgb, width, x, y), corners[colour], 8);
        }
    }
    // What is no orientation turns nothing.
    let path = bench.write("odd", with_orientation(&jpeg, 77, true));
    assert!(!bench.inspect_image(&path).unwrap().turned);
}

#[test]
fn alpha_is_dropped_and_grey_repeated() {
    let bench = Bench::new();
    // Clear pixels keep the colour that they have.
    let rgba = ::image::RgbaImage::from_pixel(3, 2, ::image::Rgba([200, 40, 60, 0]));
    rgba.save_with_format(bench.path("rgba"), ::image::ImageFormat::Png).unwrap();
    assert_eq!(pixel(&bench.image(&bench.path("rgba")).unwrap().rgb, 3, 1, 1), RED);
    rgba.save_with_format(bench.path("webp"), ::image::ImageFormat::WebP).unwrap();
    assert_eq!(bench.inspect_image(&bench.path("webp")).unwrap().format, Format::WebP);
    assert_eq!(pixel(&bench.image(&bench.path("webp")).unwrap().rgb, 3, 1, 1), RED);

    let grey = ::image::ImageBuffer::from_pixel(3, 2, ::image::LumaA([0x12FFu16, 7]));
    ::image::DynamicImage::ImageLumaA16(grey).save_with_format(bench.path("la16"), ::image::ImageFormat::Png).unwrap();
    assert_eq!(pixel(&bench.image(&bench.path("la16")).unwrap().rgb, 3, 2, 1), [0x12; 3]);

    let one_bit =
        bench.make("-f lavfi -i color=white:s=16x6 -frames:v 1 -pix_fmt monob -f image2pipe -c:v png", "one bit");
    assert_eq!(pixel(&bench.image(&one_bit).unwrap().rgb, 16, 3, 1), [255; 3]);
    let mut jpeg = std::io::Cursor::new(Vec::new());
    let grey = ::image::GrayImage::from_pixel(20, 10, ::image::Luma([77]));
    ::image::codecs::jpeg::JpegEncoder::new_with_quality(&mut jpeg, 98).encode_image(&grey).unwrap();
    let grey = bench.write("grey", jpeg.into_inner());
    assert_near(pixel(&bench.image(&grey).unwrap().rgb, 20, 19, 9), [77; 3], 1);
}

#[test]
fn an_animation_is_its_first_picture() {
    let bench = Bench::new();
    let frames = "-f lavfi -i color=0xC8283C:s=32x16:r=5:d=0.4,format=bgra[a];color=0x145AB4:s=32x16:r=5:d=0.4,format=bgra[b];[a][b]concat";
    let webp = bench.make(&format!("{frames} -c:v libwebp_anim -lossless 1 -f webp"), "webp");
    assert!(std::fs::read(&webp).unwrap().windows(4).any(|word| word == b"ANIM"));
    assert_near(pixel(&bench.image(&webp).unwrap().rgb, 32, 16, 8), RED, 2);
    let apng = bench.make(&format!("{frames} -f apng"), "apng");
    assert_near(pixel(&bench.image(&apng).unwrap().rgb, 32, 16, 8), RED, 0);
}

/// Makes a HEIC of the two halves, 128x64.
pub(crate) fn heic(bench: &Bench, name: &str) -> PathBuf {
    bench.make(&format!("{HALVES} -vf scale=128:64:flags=neighbor -f image2pipe -c:v png"), "source.png");
    bench.tool("heif-enc", &["-q", "95", "-o", name, "source.png"]);
    bench.path(name)
}

#[test]
fn heic_is_read_by_libheif() {
    let bench = Bench::new();
    for name in ["plain.heic", "./-q.heic"] {
        let path = heic(&bench, name);
        let facts = bench.inspect_image(&path).unwrap();
        assert_eq!((facts.format, facts.width, facts.height, facts.turned), (Format::Heif, 128, 64, false));
        let decoded = bench.image(&path).unwrap();
        assert_near(pixel(&decoded.rgb, 128, 8, 32), RED, 8);
        assert_near(pixel(&decoded.rgb, 128, 119, 32), BLUE, 8);
    }
}

#[test]
fn a_thumbnail_and_odd_sides_are_no_obstacle_to_heic() {
    let bench = Bench::new();
    bench.make("-f lavfi -i color=0xC8283C:s=301x177,format=rgb24 -frames:v 1", "odd.png");
    bench.tool("heif-enc", &["-t", "64", "-o", "odd.heic", "odd.png"]);
    let decoded = bench.image(&bench.path("odd.heic")).unwrap();
    assert_eq!((decoded.width, decoded.height), (301, 177));
    assert_near(pixel(&decoded.rgb, 301, 300, 176), RED, 8);
}

#[test]
fn a_turned_heic_is_turned_once() {
    let bench = Bench::new();
    let path = heic(&bench, "turned.heic");
    let bytes = std::fs::read(&path).unwrap();
    let bytes = turned(&bytes);
    std::fs::write(&path, bytes).unwrap();
    let facts = bench.inspect_image(&path).unwrap();
    assert_eq!((facts.width, facts.height, facts.turned), (64, 128, true));
    // A quarter anticlockwise brings the right side to the top.
    let decoded = bench.image(&path).unwrap();
    assert_near(pixel(&decoded.rgb, 64, 32, 8), BLUE, 8);
    assert_near(pixel(&decoded.rgb, 64, 32, 119), RED, 8);
}

/// Adds an `irot` of a quarter turn to the only image of a HEIC made by heif-enc.
fn turned(heic: &[u8]) -> Vec<u8> {
    let find = |kind: &[u8; 4]| heic.windows(4).position(|word| word == kind).unwrap() - 4;
    let size = |at: usize| u32::from_be_bytes(heic[at..at + 4].try_into().unwrap());
    let (meta, iprp, ipco, ipma) = (find(b"meta"), find(b"iprp"), find(b"ipco"), find(b"ipma"));
    let properties = {
        let (mut at, end, mut count) = (ipco + 8, ipco + size(ipco) as usize, 0);
        while at < end {
            at += size(at) as usize;
            count += 1;
        }
        count
    };
    let mut out = heic.to_vec();
    for (at, added) in [(ipma, 1), (ipco, 9), (iprp, 10), (meta, 10)] {
        let grown = size(at) + added;
        out[at..at + 4].copy_from_slice(&grown.to_be_bytes());
    }
    // From the end to the beginning, so that positions stay true: the item's entry, then the property.
    let entry = ipma + 12 + 4 + 2;
    let used = heic[entry] as usize;
    out.insert(entry + 1 + used, 0x80 | (properties as u8 + 1));
    out[entry] += 1;
    let end = ipco + size(ipco) as usize;
    out.splice(end..end, *b"\0\0\0\x09irot\x01");
    // The item's place moves with the index that grew before it.
    let iloc = out.windows(4).position(|word| word == b"iloc").unwrap() - 4;
    let place = find(b"mdat") as u32 + 8;
    let iloc_size = u32::from_be_bytes(out[iloc..iloc + 4].try_into().unwrap()) as usize;
    let at = iloc + out[iloc..iloc + iloc_size].windows(4).position(|word| word == place.to_be_bytes()).unwrap();
    out[at..at + 4].copy_from_slice(&(place + 10).to_be_bytes());
    out
}

#[test]
fn several_images_in_one_heic_are_refused() {
    let bench = Bench::new();
    bench.make(&format!("{HALVES} -f image2pipe -c:v png"), "source.png");
    bench.tool("heif-enc", &["-o", "two.heic", "source.png", "source.png"]);
    let error = bench.image(&bench.path("two.heic")).unwrap_err();
    assert_eq!(error.to_string(), "the file holds 2 images, and one is accepted");
}

#[test]
fn whether_heic_can_be_read_shows_without_a_file() {
    HeifTool::default().check().unwrap();
    let error = HeifTool::at("/nowhere/heif-dec").check().unwrap_err();
    assert!(
        matches!(error, Error::HeifToolMissing { .. }) && error.to_string().contains("/nowhere/heif-dec"),
        "{error}"
    );
}

#[test]
fn a_missing_heif_tool_is_named_with_the_way_to_install_it() {
    let bench = Bench::new();
    let path = heic(&bench, "plain.heic");
    let tool = HeifTool::at("/nowhere/heif-dec");
    let error = image::decode(&tool, &bench.path("scratch"), &path, &NO_CLAIM, &IMAGE_LIMITS, &NEVER).unwrap_err();
    assert!(error.is_of_machine());
    let message =
        "could not find /nowhere/heif-dec: install libheif's tools (on Debian: apt-get install libheif-examples)";
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bench = Bench::new();
    let noise = "-f lavfi -i testsrc2=s=96x64 -frames:v 1";
    let files = [
        bench.make(&format!("{noise} -f mjpeg"), "jpeg"),
        bench.make(&format!("{noise} -f image2pipe -c:v png"), "png"),
        bench.make(&format!("{noise} -c:v libwebp -f webp"), "webp"),
        heic(&bench, "heic"),
    ];
    for path in files {
        let whole = std::fs::read(&path).unwrap();
        for percent in [10, 50, 90] {
            let cut = bench.write("cut", &whole[..whole.len() * percent / 100]);
            let error = bench.image(&cut).unwrap_err();
            let expected = matches!(error, Error::Truncated { .. } | Error::Undecodable { .. });
            assert!(expected && !error.is_of_machine(), "{} at {percent} %: {error:?}", path.display());
        }
        let named = bench.image(&bench.write("cut", &whole[..whole.len() / 2])).unwrap_err().to_string();
        assert!(named.starts_with("the file is truncated: "), "{}: {named}", path.display());
    }
}

#[test]
fn claims_that_contradict_the_content_are_refused() {
    let bench = Bench::new();
    let png = bench.make(&format!("{HALVES} -f image2pipe -c:v png"), "photo.jpg");
    let claim = |content_type, file_name| image::inspect(&png, &Claim { content_type, file_name }, &IMAGE_LIMITS);
    // The path on the disk is no claim.
    assert_eq!(claim(Some("image/png"), None).unwrap().format, Format::Png);
    let message = claim(None, Some("photo.jpg")).unwrap_err().to_string();
    assert_eq!(message, "the file name says \".jpg\", and the content is PNG");
    let message = claim(Some("video/mp4"), None).unwrap_err().to_string();
    assert_eq!(message, "the content type says \"video/mp4\", and the content is PNG");
}

/// A PNG of 1-bit grey that claims a size, over `rows` bytes of zeros.
fn zeros(width: u32, height: u32, rows: usize) -> Vec<u8> {
    let mut deflated = vec![0x78, 0x01];
    for (i, block) in vec![0; rows].chunks(0xFFFF).enumerate() {
        let last = u8::from((i + 1) * 0xFFFF >= rows);
        let length = block.len() as u16;
        deflated.push(last);
        deflated.write_all(&length.to_le_bytes()).unwrap();
        deflated.write_all(&(!length).to_le_bytes()).unwrap();
        deflated.extend(block);
    }
    // The checksum of zeros: one, and their number.
    deflated.extend(((rows % 65521) as u32 * 65536 + 1).to_be_bytes());
    let chunk = |kind: &[u8; 4], body: &[u8]| {
        let tagged = [&kind[..], body].concat();
        [&(body.len() as u32).to_be_bytes(), &tagged[..], &crc32(&tagged).to_be_bytes()].concat()
    };
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[1, 0, 0, 0, 0]].concat();
    [b"\x89PNG\r\n\x1A\n".to_vec(), chunk(b"IHDR", &header), chunk(b"IDAT", &deflated), chunk(b"IEND", b"")].concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 })
    })
}

#[test]
fn a_bomb_is_refused_by_its_header() {
    let bench = Bench::new();
    // The writer of bombs writes good files too.
    assert_eq!(bench.image(&bench.write("good", zeros(64, 4, 4 * 9))).unwrap().rgb, [0; 3 * 64 * 4]);
    let message = bench.image(&bench.write("bomb", zeros(60_000, 60_000, 100))).unwrap_err().to_string();
    let limits = "at most 5760 a side and 33177600 in all are accepted";
    assert_eq!(message, format!("the image is too large: 60000x60000 pixels, and {limits}"));
    let message = bench.inspect_image(&bench.write("strip", zeros(5761, 1, 800))).unwrap_err().to_string();
    assert_eq!(message, format!("the image is too large: 5761x1 pixels, and {limits}"));
    let truncated = bench.image(&bench.write("short", zeros(64, 5000, 9))).unwrap_err();
    assert!(matches!(truncated, Error::Truncated { .. } | Error::Undecodable { .. }), "{truncated:?}");
}

#[test]
fn a_heic_that_lies_about_its_size_is_refused() {
    let bench = Bench::new();
    let path = heic(&bench, "lie.heic");
    let mut bytes = std::fs::read(&path).unwrap();
    let ispe = bytes.windows(4).position(|word| word == b"ispe").unwrap();
    bytes[ispe + 8..ispe + 12].copy_from_slice(&60_000u32.to_be_bytes());
    let huge = bench.inspect_image(&bench.write("huge", &bytes)).unwrap_err();
    assert!(matches!(huge, Error::TooLarge { width: 60_000, height: 64, .. }), "{huge:?}");
    bytes[ispe + 8..ispe + 12].copy_from_slice(&100u32.to_be_bytes());
    let error = bench.image(&bench.write("lie", &bytes)).unwrap_err();
    assert!(matches!(error, Error::Undecodable { .. }), "{error:?}");
}

#[test]
fn a_missing_codec_is_the_machines_fault_and_damage_is_the_files() {
    let bench = Bench::new();
    let path = heic(&bench, "whole.heic");
    let tool = |name: &str, decoders: &str| {
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --list-decoders ]; then printf 'HEIC decoders:\\n{decoders}AVIF decoders:\\n'; exit 0; fi\n\
             echo 'Could not decode image: 0: Unsupported feature: Unsupported codec' >&2\nexit 1\n"
        );
        let path = bench.write(name, script);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        HeifTool::at(path)
    };
    let decode = |heif: &HeifTool| image::decode(heif, &bench.path("scratch"), &path, &NO_CLAIM, &IMAGE_LIMITS, &NEVER);
    let error = decode(&tool("bare", "")).unwrap_err();
    assert!(error.is_of_machine() && error.to_string().contains("libheif-plugin-libde265"), "{error}");
    let error = decode(&tool("equipped", "- libde265 = version 1\\n")).unwrap_err();
    assert!(matches!(error, Error::Undecodable { .. }) && !error.is_of_machine(), "{error}");
}
