//! Still pictures: JPEG, PNG, WebP and HEIC to RGB.
//!
//! Pixels are what Pillow's `exif_transpose` and `convert("RGB")` give, from the same decoder output: the EXIF
//! orientation is applied, alpha is dropped and not blended, palettes are looked up, grey is repeated, CMYK goes to RGB
//! by `(1 - c)(1 - k)`, and colour profiles are not applied. Samples of 16 bits keep their high byte, grey ones too
//! (which Pillow clips). Of an animated PNG or WebP, the first picture is taken.

mod heif;
mod jpeg;
mod pixels;

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, Limits};

use crate::decode::size::SizeLimits;
use crate::decode::source::{Source, machine};
use crate::decode::{Claim, Error, Format, Kind};

pub use heif::{HEIF_LIMIT, HeifTool};

/// What a decoder may hold besides the pixels: tables, text chunks, a row.
const DECODER_BYTES: u64 = 64 << 20;

/// How large an image may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// The longest file.
    pub max_file_bytes: u64,
    /// The longest side, in pixels.
    pub max_side: u32,
    /// The most pixels.
    pub max_pixels: u64,
}

impl ImageLimits {
    fn size(&self) -> SizeLimits {
        SizeLimits { max_side: self.max_side, max_pixels: self.max_pixels }
    }
}

/// What an image's headers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageFacts {
    /// What the content is.
    pub format: Format,
    /// Size of the file.
    pub size_bytes: u64,
    /// Width as shown, after the orientation.
    pub width: u32,
    /// Height as shown, after the orientation.
    pub height: u32,
    /// Whether the stored picture must be turned or mirrored to be upright.
    pub turned: bool,
}

/// An upright picture of 8-bit RGB.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Rows from the top, packed; `3 * width * height` bytes.
    pub rgb: Vec<u8>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}x{})", self.width, self.height)
    }
}

/// Says what the image at `path` is, from its headers alone.
///
/// Errors: what is wrong with the file or over a limit; [`Error::Machine`].
pub fn inspect(path: &Path, claim: &Claim<'_>, limits: &ImageLimits) -> Result<ImageFacts, Error> {
    let source = Source::open(path, claim, Kind::Image, limits.max_file_bytes)?;
    examine(path, source, limits).map(|(facts, _)| facts)
}

/// Decodes the image at `path`; a HEIC one through `heif`, with an intermediate file in the folder `scratch`.
///
/// Memory: up to 16 bytes for each pixel, besides the file.
///
/// Errors: those of [`inspect`]; [`Error::Truncated`], [`Error::Undecodable`], [`Error::Hung`],
/// [`Error::SeveralImages`], [`Error::HeifToolMissing`], [`Error::HeifCodecMissing`], [`Error::Aborted`] soon after
/// `aborted` was set.
pub fn decode(
    heif: &HeifTool,
    scratch: &Path,
    path: &Path,
    claim: &Claim<'_>,
    limits: &ImageLimits,
    aborted: &AtomicBool,
) -> Result<Image, Error> {
    let source = Source::open(path, claim, Kind::Image, limits.max_file_bytes)?;
    let (facts, decoder) = examine(path, source, limits)?;
    if aborted.load(Ordering::Relaxed) {
        return Err(Error::Aborted);
    }
    match decoder {
        Some((decoder, orientation)) => read(decoder, orientation),
        None => heif.decode(path, scratch, &facts, limits, aborted),
    }
}

type Decoder = Box<dyn ImageDecoder + Send>;

/// Reads the headers; the decoder that read them goes on, except for HEIC, which another program decodes.
fn examine(
    path: &Path,
    mut source: Source,
    limits: &ImageLimits,
) -> Result<(ImageFacts, Option<(Decoder, Orientation)>), Error> {
    let (format, size_bytes) = (source.format, source.size_bytes);
    if format == Format::Heif {
        let shown = heif::inspect(path, &mut source)?;
        limits.size().check(Kind::Image, shown.width, shown.height)?;
        let (width, height, turned) = (shown.width, shown.height, shown.turned);
        return Ok((ImageFacts { format, size_bytes, width, height, turned }, None));
    }
    check_complete(path, &mut source)?;
    let mut decoder = guarded(|| open(source, limits))?;
    let (width, height) = decoder.dimensions();
    limits.size().check(Kind::Image, width, height)?;
    // A picture whose EXIF block cannot be read is taken as it is stored.
    let orientation = guarded(|| decoder.orientation()).unwrap_or(Orientation::NoTransforms);
    let (width, height) = if swaps_sides(orientation) { (height, width) } else { (width, height) };
    let turned = orientation != Orientation::NoTransforms;
    Ok((ImageFacts { format, size_bytes, width, height, turned }, Some((decoder, orientation))))
}

fn open(source: Source, limits: &ImageLimits) -> Result<Decoder, ImageError> {
    let format = source.format;
    let file = BufReader::new(source.file);
    Ok(match format {
        Format::Jpeg => Box::new(JpegDecoder::new(file)?),
        Format::WebP => Box::new(WebPDecoder::new(file)?),
        _ => Box::new(png_decoder(file, limits)?),
    })
}

/// A PNG decoder whose own memory is bounded.
fn png_decoder<R: std::io::BufRead + Seek>(file: R, limits: &ImageLimits) -> Result<PngDecoder<R>, ImageError> {
    let mut bounds = Limits::no_limits();
    bounds.max_alloc = Some(DECODER_BYTES.saturating_add(limits.max_pixels.saturating_mul(8)));
    PngDecoder::with_limits(file, bounds)
}

/// Refuses a file that ends before its format says, where a decoder would make up the rest.
fn check_complete(path: &Path, source: &mut Source) -> Result<(), Error> {
    let missing = "its end is missing";
    let read = machine("read", path);
    let complete = match source.format {
        Format::Jpeg => jpeg::is_complete(&mut BufReader::new(&source.file)).map_err(read)?,
        Format::WebP => {
            let mut head = [0; 8];
            let got = (&source.file).take(8).read(&mut head).map_err(read)?;
            let announced = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
            got == 8 && u64::from(announced) + 8 <= source.size_bytes
        }
        _ => true,
    };
    source.file.seek(SeekFrom::Start(0)).map_err(machine("read", path))?;
    if complete { Ok(()) } else { Err(Error::Truncated { missing }) }
}

/// Decodes to RGB, and turns the picture upright.
fn read(decoder: Decoder, orientation: Orientation) -> Result<Image, Error> {
    let (width, height) = decoder.dimensions();
    let color = decoder.color_type();
    let mut stored = vec![0; decoder.total_bytes() as usize];
    guarded(|| decoder.read_image_boxed(&mut stored))?;
    let rgb = pixels::to_rgb8(stored, color)
        .ok_or_else(|| Error::undecodable(Kind::Image, format_args!("unexpected pixels: {color:?}")))?;
    let upright = image::RgbImage::from_raw(width, height, rgb).expect("the buffer holds width x height pixels of RGB");
    let mut upright = DynamicImage::ImageRgb8(upright);
    upright.apply_orientation(orientation);
    let (width, height) = (upright.width(), upright.height());
    Ok(Image { width, height, rgb: upright.into_rgb8().into_raw() })
}

fn swaps_sides(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

/// Runs a step of a decoder; should it panic over a file, then that file is undecodable.
fn guarded<T>(step: impl FnOnce() -> Result<T, ImageError>) -> Result<T, Error> {
    // A decoder that panicked is never used again.
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ImageError::IoError(error))) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(Error::Truncated { missing: "its pixels end early" })
        }
        Ok(Err(error)) => Err(Error::undecodable(Kind::Image, error)),
        Err(_) => Err(Error::undecodable(Kind::Image, "the decoder panicked")),
    }
}
