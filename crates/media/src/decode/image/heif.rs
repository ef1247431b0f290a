//! HEIC and HEIF: sizes by their boxes, pixels by libheif's command-line tool.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf, absolute};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use image::metadata::Orientation;

use super::{Image, ImageFacts, ImageLimits, guarded, png_decoder, read, swaps_sides};
use crate::Error as ToolError;
use crate::decode::boxes::{BoxSpan, Fields, children};
use crate::decode::source::{Source, machine};
use crate::decode::{Error, Kind};
use crate::process::{Bounds, capture};
use crate::scratch::ScratchFolder;

/// The longest that decoding one HEIC image may take.
pub const HEIF_LIMIT: Duration = Duration::from_secs(60);
/// The longest that the tool may take to list what it can do.
const LIST_LIMIT: Duration = Duration::from_secs(10);
/// The most memory of the tool, besides what the pixels of the largest image take.
const TOOL_BYTES: u64 = 1 << 30;
/// The most that the tool may print.
const MAX_PRINTED_BYTES: usize = 1 << 16;
/// What is written to see that the disk still takes something.
const ROOM_BYTES: usize = 1 << 16;
/// The longest `meta` box; that of a phone's photograph of many tiles is about 10 kB.
const MAX_META_BYTES: u64 = 4 << 20;

/// libheif's program, `heif-dec` or by its older name `heif-convert`.
#[derive(Debug, Clone)]
pub struct HeifTool {
    names: Vec<PathBuf>,
}

impl Default for HeifTool {
    /// Whichever of the two is on the `PATH`, looked for when an image needs it.
    fn default() -> Self {
        Self { names: vec!["heif-dec".into(), "heif-convert".into()] }
    }
}

impl HeifTool {
    /// The program at this path, or of this name on the `PATH`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { names: vec![path.into()] }
    }

    /// Checks that HEIC can be decoded, as far as that shows without a file.
    ///
    /// Errors: [`Error::HeifToolMissing`], [`Error::HeifCodecMissing`].
    pub fn check(&self) -> Result<(), Error> {
        let aborted = AtomicBool::new(false);
        let is_missing = |name: &PathBuf| {
            let bounds = Bounds { time: LIST_LIMIT, max_bytes: MAX_PRINTED_BYTES, memory_bytes: Some(TOOL_BYTES) };
            let mut command = Command::new(name);
            command.arg("--version");
            matches!(capture("heif-convert", command, &bounds, &aborted), Err(ToolError::ProgramMissing { .. }))
        };
        if self.names.iter().all(is_missing) {
            return Err(self.missing());
        }
        if self.lacks_codec(&aborted) { Err(Error::HeifCodecMissing) } else { Ok(()) }
    }

    fn missing(&self) -> Error {
        let tried: Vec<_> = self.names.iter().map(|name| name.display().to_string()).collect();
        Error::HeifToolMissing { tried: tried.join(" or ") }
    }

    /// Decodes the inspected file at `path` by way of a PNG in a folder of its own within `scratch`.
    pub(super) fn decode(
        &self,
        path: &Path,
        scratch: &Path,
        facts: &ImageFacts,
        limits: &ImageLimits,
        aborted: &AtomicBool,
    ) -> Result<Image, Error> {
        // An absolute path is no option, whatever the name begins with.
        let input = absolute(path).map_err(machine("resolve", path))?;
        let scratch = absolute(scratch).map_err(machine("resolve", scratch))?;
        let folder = ScratchFolder::create(&scratch, &OsString::from("heif")).map_err(Error::Machine)?;
        let output = folder.path().join("image.png");
        let decoded =
            self.run(&input, &output, limits, aborted).and_then(|()| collect(folder.path(), &output, facts, limits));
        match decoded {
            // A full disk cuts the tool's picture short, and the tool may end well all the same.
            Err(error @ (Error::Undecodable { .. } | Error::Truncated { .. })) => {
                check_room(folder.path())?;
                Err(if self.lacks_codec(aborted) { Error::HeifCodecMissing } else { error })
            }
            decoded => decoded,
        }
    }

    /// Runs the first of the names that is there.
    fn run(&self, input: &Path, output: &Path, limits: &ImageLimits, aborted: &AtomicBool) -> Result<(), Error> {
        let bounds = Bounds {
            time: HEIF_LIMIT,
            max_bytes: MAX_PRINTED_BYTES,
            memory_bytes: Some(TOOL_BYTES.saturating_add(limits.max_pixels.saturating_mul(24))),
        };
        for name in &self.names {
            let mut command = Command::new(name);
            command.arg(input).arg(output);
            match capture("heif-convert", command, &bounds, aborted) {
                Ok(_) => return Ok(()),
                Err(ToolError::ProgramMissing { .. }) => {}
                Err(error) => return Err(Error::of_program(Kind::Image, input, error)),
            }
        }
        Err(self.missing())
    }

    /// Asks the tool whether it has no decoder for HEVC: its list is nothing that a file has a hand in, as it has in what is
    /// said of it. A tool that does not list any counts as having one.
    fn lacks_codec(&self, aborted: &AtomicBool) -> bool {
        let bounds = Bounds { time: LIST_LIMIT, max_bytes: MAX_PRINTED_BYTES, memory_bytes: Some(TOOL_BYTES) };
        self.names.iter().any(|name| {
            let mut command = Command::new(name);
            command.arg("--list-decoders");
            let listed = capture("heif-convert", command, &bounds, aborted);
            listed.is_ok_and(|listed| lists_no_codec(&String::from_utf8_lossy(&listed.stdout)))
        })
    }
}

/// Tells whether a list of decoders has nothing under its heading for HEVC; each heading ends in a colon.
fn lists_no_codec(listed: &str) -> bool {
    let mut lines = listed.lines().map(str::trim).skip_while(|line| *line != "HEIC decoders:");
    lines.next().is_some() && lines.next().is_none_or(|line| !line.contains('='))
}

/// Takes what the tool wrote into `folder`, which is `output` when the file holds one image.
fn collect(folder: &Path, output: &Path, facts: &ImageFacts, limits: &ImageLimits) -> Result<Image, Error> {
    if !output.exists() {
        // Several images of equal standing are written as image-1.png, image-2.png and so on.
        let count = fs::read_dir(folder).map_err(machine("read", folder))?.count();
        return Err(if count > 1 {
            Error::SeveralImages { count }
        } else {
            Error::undecodable(Kind::Image, "the tool wrote no image")
        });
    }
    let file = BufReader::new(File::open(output).map_err(machine("open", output))?);
    let decoder = guarded(|| png_decoder(file, limits))?;
    let (width, height) = image::ImageDecoder::dimensions(&decoder);
    limits.size().check(Kind::Image, width, height)?;
    if (width, height) != (facts.width, facts.height) {
        let detail = format!("announced {}x{}, decoded {width}x{height}", facts.width, facts.height);
        return Err(Error::undecodable(Kind::Image, detail));
    }
    // The tool has turned the picture; the EXIF block that it copies along is about the stored one.
    read(Box::new(decoder), Orientation::NoTransforms)
}

/// Makes sure that files can be written in the tool's folder.
fn check_room(folder: &Path) -> Result<(), Error> {
    let path = folder.join("room");
    fs::write(&path, [0; ROOM_BYTES]).map_err(machine("write", &path))
}

/// What the primary image's properties say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) turned: bool,
}

/// Reads the size as shown of a HEIF file's primary image.
pub(super) fn inspect(path: &Path, source: &mut Source) -> Result<Shown, Error> {
    let BoxSpan { begin, end, .. } = source.index_box(path, Kind::Image, b"meta")?;
    if end - begin > MAX_META_BYTES {
        return Err(Error::undecodable(Kind::Image, "the meta box is too long"));
    }
    let mut body = Vec::with_capacity((end - begin) as usize);
    source.file.seek(SeekFrom::Start(begin)).map_err(machine("read", path))?;
    (&source.file).take(end - begin).read_to_end(&mut body).map_err(machine("read", path))?;
    shown(&body).ok_or_else(|| Error::undecodable(Kind::Image, "no size of a primary image"))
}

/// Finds the primary item in the body of a `meta` box and puts its properties together.
fn shown(meta: &[u8]) -> Option<Shown> {
    let meta = meta.get(4..)?;
    let find = |body, kind: &[u8; 4]| children(body).find(|(found, _)| found == kind).map(|(_, body)| body);
    let mut pitm = Fields(find(meta, b"pitm")?);
    let id_bytes = if pitm.number(1)? == 0 { 2 } else { 4 };
    pitm.number(3)?;
    let primary = pitm.number(id_bytes)?;
    let iprp = find(meta, b"iprp")?;
    let properties: Vec<_> = children(find(iprp, b"ipco")?).collect();
    let used = children(iprp)
        .filter(|(kind, _)| kind == b"ipma")
        .find_map(|(_, ipma)| associations(ipma, primary).filter(|used| !used.is_empty()))?;
    let mut shown: Option<Shown> = None;
    for index in used {
        let (kind, body) = *properties.get(index.checked_sub(1)?)?;
        match (&kind, &mut shown) {
            (b"ispe", shown) => {
                let mut fields = Fields(body.get(4..)?);
                *shown = Some(Shown { width: fields.number(4)?, height: fields.number(4)?, turned: false });
            }
            (b"clap", Some(shown)) => {
                let mut fields = Fields(body);
                let [width, over_width, height, over_height] = std::array::from_fn(|_| fields.number(4));
                (shown.width, shown.height) = (width?.checked_div(over_width?)?, height?.checked_div(over_height?)?);
            }
            (b"irot", Some(shown)) => {
                let orientation = match body.first()? & 3 {
                    0 => Orientation::NoTransforms,
                    1 => Orientation::Rotate270,
                    2 => Orientation::Rotate180,
                    _ => Orientation::Rotate90,
                };
                shown.turned |= orientation != Orientation::NoTransforms;
                if swaps_sides(orientation) {
                    (shown.width, shown.height) = (shown.height, shown.width);
                }
            }
            (b"imir", Some(shown)) => shown.turned = true,
            _ => {}
        }
    }
    shown
}

/// The 1-based numbers of the properties of item `wanted`, in their order.
fn associations(ipma: &[u8], wanted: u32) -> Option<Vec<usize>> {
    let mut fields = Fields(ipma);
    let version = fields.number(1)?;
    let wide = fields.number(3)? & 1 == 1;
    for _ in 0..fields.number(4)? {
        let item = fields.number(if version == 0 { 2 } else { 4 })?;
        let count = fields.number(1)?;
        let mut indices = Vec::new();
        for _ in 0..count {
            // The highest bit says that the property is essential.
            let index = if wide { fields.number(2)? & 0x7FFF } else { fields.number(1)? & 0x7F };
            indices.push(index as usize);
        }
        if item == wanted {
            return Some(indices);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(8 + body.len() as u32).to_be_bytes(), &kind[..], body].concat()
    }

    /// A `meta` box's body whose item 2 is primary, 640x480 clipped to 600x400 and turned a quarter.
    fn meta() -> Vec<u8> {
        let number = |value: u32| value.to_be_bytes();
        let ispe = |width, height| boxed(b"ispe", &[number(0), number(width), number(height)].concat());
        let clap = boxed(b"clap", &[600, 1, 800, 2, 0, 1, 0, 1].map(number).concat());
        let ipco = boxed(b"ipco", &[ispe(100, 50), ispe(640, 480), clap, boxed(b"irot", &[1])].concat());
        let ipma = boxed(b"ipma", &[0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0x81, 0, 2, 3, 2, 0x83, 0x84]);
        let pitm = boxed(b"pitm", &[0, 0, 0, 0, 0, 2]);
        [vec![0; 4], pitm, boxed(b"iprp", &[ipco, ipma].concat())].concat()
    }

    #[test]
    fn the_primary_item_is_measured_as_shown() {
        assert_eq!(shown(&meta()), Some(Shown { width: 400, height: 600, turned: true }));
    }

    #[test]
    fn only_a_list_without_hevc_says_that_the_codec_is_missing() {
        for (listed, missing) in [
            ("HEIC decoders:\nAVIF decoders:\n- dav1d = dav1d v6.6.0\n", true),
            ("AVC decoders:\nAVIF decoders:\nHEIC decoders:\nJPEG decoders:\njpeg = libjpeg-turbo\n", true),
            ("HEIC decoders:", true),
            ("HEIC decoders:\n- libde265 = libde265 HEVC decoder, version 1.0.11\nAVIF decoders:\n", false),
            ("AVIF decoders:\nHEIC decoders:\nlibde265 = libde265 HEVC decoder\n", false),
            ("usage: heif-convert [options] <input> <output>", false),
            ("", false),
        ] {
            assert_eq!(lists_no_codec(listed), missing, "{listed}");
        }
    }

    #[test]
    fn a_disk_that_takes_nothing_is_the_machines_fault() {
        let folder = tempfile::tempdir().unwrap();
        check_room(folder.path()).unwrap();
        let error = check_room(&folder.path().join("gone")).unwrap_err();
        assert!(error.is_of_machine(), "{error}");
    }

    #[test]
    fn a_box_cut_anywhere_yields_nothing_and_no_panic() {
        let meta = meta();
        for length in 0..meta.len() {
            assert_eq!(shown(&meta[..length]), None, "{length}");
        }
    }
}
