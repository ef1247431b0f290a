//! Which cases a golden folder holds, and what runs each.

use std::path::{Path, PathBuf};

use super::golden::{Error, GoldenFile, read_json};
use super::report::Line;
use super::report::{Place, Report, Summary};
use super::requests::{Request, Requests};
use super::target::Target;
use super::{audio, components, request, tables, text_frontend};
use crate::checkpoint::{Checkpoint, Layout, tiny};
use crate::device::{Backend, Device, HostBounds};
use crate::engine::{ComputeDtype, MemoryBounds};
use crate::load::LoadError;
use crate::ops::Ops;
use crate::ops::cuda::AttentionChoice;

/// What to verify.
#[derive(Debug, Clone)]
pub struct Options {
    /// The golden folder.
    pub golden: PathBuf,
    /// One case only.
    pub case: Option<String>,
    /// An empty folder for the checkpoints; the caller removes it.
    pub scratch: PathBuf,
    /// What computes.
    pub device: Device,
    /// Which attention computes in 16-bit types on a GPU.
    pub attention: AttentionChoice,
    /// What the requests of F32 are computed in: BF16 is compared with their F32 under wider tolerances.
    pub dtype: ComputeDtype,
}

/// Components and tables: name, file, and what verifies it.
const PARTS: [(&str, &str, Part); 9] = [
    ("vae", "vae.safetensors", Part::Vae),
    ("vae_f16", "vae_f16.safetensors", Part::VaeF16),
    ("audio_vae", "audio_vae.safetensors", Part::AudioVae),
    ("scheduler", "scheduler.safetensors", Part::Scheduler),
    ("rng", "rng.safetensors", Part::Noise),
    ("tables", "tables.json", Part::Tables),
    ("layout_real", "layout_real.json", Part::Layouts),
    ("text_frontend", "text_frontend.safetensors", Part::TextFrontend),
    ("resample", "resample.safetensors", Part::Resample),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Vae,
    VaeF16,
    AudioVae,
    Scheduler,
    Noise,
    Tables,
    Layouts,
    TextFrontend,
    Resample,
}

impl Part {
    fn needs_checkpoint(self) -> bool {
        matches!(self, Part::Vae | Part::VaeF16 | Part::AudioVae | Part::Tables | Part::TextFrontend)
    }
}

/// Verifies a golden folder; `opened` hears first what computes, then `listener` each stage as it is compared.
///
/// Errors: [`Error`] when the folder or its checkpoint cannot be read or the engine fails; a stage that differs is a
/// failed line.
pub fn run(options: &Options, opened: &mut dyn FnMut(&str), listener: &mut dyn FnMut(Line)) -> Result<Summary, Error> {
    let golden = &options.golden;
    let requests: Requests = read_json(&golden.join("requests.json"))?;
    let parts: Vec<_> = PARTS.into_iter().filter(|(_, file, _)| golden.join(file).is_file()).collect();
    check_name(options, &requests, &parts)?;
    let cases = Cases { requests, parts };
    let bounds = HostBounds { attention_bytes: MemoryBounds::default().attention_bytes, masters_bytes: 0 };
    let backend = Backend::open(options.device, options.attention, bounds).map_err(LoadError::Device)?;
    opened(&backend.describe());
    match backend {
        Backend::Cpu(ops) => run_on(&ops, false, options, cases, listener),
        Backend::Cuda(ops) => run_on(&*ops, true, options, cases, listener),
    }
}

/// What a golden folder holds.
struct Cases {
    requests: Requests,
    /// Name, file and kind of each.
    parts: Vec<(&'static str, &'static str, Part)>,
}

fn run_on<O: Ops>(
    ops: &O,
    is_gpu: bool,
    options: &Options,
    Cases { requests, parts }: Cases,
    listener: &mut dyn FnMut(Line),
) -> Result<Summary, Error>
where
    O::Buffer: 'static,
{
    let &Options { device, attention, dtype, .. } = options;
    let target = Target { ops, device, attention, is_gpu, dtype };
    let golden = &options.golden;
    let wanted = |name: &str| options.case.as_deref().is_none_or(|case| case == name);

    let mut checkpoints = Vec::new();
    for layout in [Layout::Original, Layout::Diffusers] {
        let root = options.scratch.join(layout.as_str());
        tiny::write_from_golden(golden, layout, &root)?;
        checkpoints.push((layout.as_str(), Checkpoint::open(&root)?));
    }
    let mut report = Report::new(listener);
    for request in requests.cases.iter().filter(|request| wanted(&request.name)) {
        request_case(target, golden, request, &checkpoints, &mut report)?;
    }
    for (name, file, part) in parts.into_iter().filter(|(name, ..)| wanted(name)) {
        let path = golden.join(file);
        if part.needs_checkpoint() {
            for (layout, checkpoint) in &checkpoints {
                component(target, part, checkpoint, &path, &Place::new(name, Some(layout)), &mut report)?;
            }
        } else {
            plain(ops, part, &path, &Place::new(name, None), &mut report)?;
        }
    }
    if options.case.is_none() {
        for file in unknown_files(golden, &requests)? {
            report.unknown(&Place::new(&file, None), "all tensors");
        }
    }
    Ok(report.summary)
}

/// Returns the tensor files that no case of the folder names.
fn unknown_files(golden: &Path, requests: &Requests) -> Result<Vec<String>, Error> {
    let unreadable = |source| Error::Read { path: golden.to_owned(), source };
    let mut unknown = Vec::new();
    for entry in std::fs::read_dir(golden).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        let known =
            PARTS.iter().any(|(_, file, _)| *file == name) || requests.cases.iter().any(|case| case.file == name);
        if name.ends_with(".safetensors") && !known {
            unknown.push(name);
        }
    }
    unknown.sort();
    Ok(unknown)
}

fn check_name(options: &Options, requests: &Requests, parts: &[(&str, &str, Part)]) -> Result<(), Error> {
    let Some(name) = &options.case else { return Ok(()) };
    let cases: Vec<String> = requests
        .cases
        .iter()
        .map(|request| request.name.clone())
        .chain(parts.iter().map(|(name, ..)| (*name).to_owned()))
        .collect();
    if cases.contains(name) {
        return Ok(());
    }
    Err(Error::NoSuchCase { name: name.clone(), cases })
}

fn request_case<O: Ops>(
    target: Target<'_, O>,
    golden: &Path,
    request: &Request,
    checkpoints: &[(&'static str, Checkpoint)],
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    for (layout, checkpoint) in checkpoints {
        // Opened anew for each layout, since it remembers which stages were reached.
        let file = GoldenFile::open(golden.join(&request.file))?;
        let place = Place::new(&request.name, Some(layout));
        request::verify(target, checkpoint, &file, request, &place, report)?;
    }
    Ok(())
}

fn component<O: Ops>(
    target: Target<'_, O>,
    part: Part,
    checkpoint: &Checkpoint,
    path: &Path,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error>
where
    O::Buffer: 'static,
{
    if part == Part::Tables {
        return tables::tables(checkpoint, path, place, report);
    }
    let file = GoldenFile::open(path.to_owned())?;
    match part {
        Part::Vae => components::video(target.ops, checkpoint, &file, place, report),
        Part::VaeF16 => components::video_f16(target.ops, checkpoint, &file, place, report),
        Part::TextFrontend => text_frontend::verify(checkpoint, &file, place, report),
        _ => components::audio(target.ops, checkpoint, &file, place, report),
    }
}

fn plain<O: Ops>(ops: &O, part: Part, path: &Path, place: &Place, report: &mut Report<'_>) -> Result<(), Error> {
    match part {
        Part::Layouts => tables::layouts(path, place, report),
        Part::Resample => audio::resample(&GoldenFile::open(path.to_owned())?, place, report),
        Part::Scheduler => tables::scheduler(ops, &GoldenFile::open(path.to_owned())?, place, report),
        _ => tables::noise(&GoldenFile::open(path.to_owned())?, place, report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensor_files_that_no_case_names_are_unknown() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["vae.safetensors", "requests.json", "tokenizer.json", "t2va_later.safetensors", "another.safetensors"]
        {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let requests = Requests { cases: Vec::new() };
        let unknown = unknown_files(folder.path(), &requests).unwrap();
        assert_eq!(unknown, ["another.safetensors", "t2va_later.safetensors"]);
        let error = unknown_files(&folder.path().join("absent"), &requests).unwrap_err();
        assert!(matches!(error, Error::Read { .. }), "{error}");
    }
}
