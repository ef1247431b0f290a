//! Which cases a golden folder holds, and what runs each.

use std::path::{Path, PathBuf};

use clapboard_h3::Task;

use super::golden::{Error, GoldenFile, read_json};
use super::report::Line;
use super::report::{Place, Report, Summary};
use super::requests::{Request, Requests};
use super::{components, t2va, tables};
use crate::checkpoint::{Checkpoint, Layout, tiny};

/// What to verify.
#[derive(Debug, Clone)]
pub struct Options {
    /// The golden folder.
    pub golden: PathBuf,
    /// One case only.
    pub case: Option<String>,
    /// An empty folder for the checkpoints; the caller removes it.
    pub scratch: PathBuf,
}

/// Components and tables: name, file, and what verifies it; none where nothing is built that could be compared.
const PARTS: [(&str, &str, Option<Part>); 9] = [
    ("vae", "vae.safetensors", Some(Part::Vae)),
    ("vae_f16", "vae_f16.safetensors", Some(Part::VaeF16)),
    ("audio_vae", "audio_vae.safetensors", Some(Part::AudioVae)),
    ("scheduler", "scheduler.safetensors", Some(Part::Scheduler)),
    ("rng", "rng.safetensors", Some(Part::Noise)),
    ("tables", "tables.json", Some(Part::Tables)),
    ("layout_real", "layout_real.json", Some(Part::Layouts)),
    ("text_frontend", "text_frontend.safetensors", None),
    ("resample", "resample.safetensors", None),
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
}

impl Part {
    fn needs_checkpoint(self) -> bool {
        matches!(self, Part::Vae | Part::VaeF16 | Part::AudioVae | Part::Tables)
    }
}

/// Verifies a golden folder; `listener` hears each stage as it is compared.
///
/// Errors: [`Error`] when the folder or its checkpoint cannot be read or the engine fails; a stage that differs is a
/// failed line.
pub fn run(options: &Options, listener: &mut dyn FnMut(Line)) -> Result<Summary, Error> {
    let golden = &options.golden;
    let requests: Requests = read_json(&golden.join("requests.json"))?;
    let parts: Vec<_> = PARTS.into_iter().filter(|(_, file, _)| golden.join(file).is_file()).collect();
    check_name(options, &requests, &parts)?;
    let wanted = |name: &str| options.case.as_deref().is_none_or(|case| case == name);

    let mut checkpoints = Vec::new();
    for layout in [Layout::Original, Layout::Diffusers] {
        let root = options.scratch.join(layout.as_str());
        tiny::write_from_golden(golden, layout, &root)?;
        checkpoints.push((layout.as_str(), Checkpoint::open(&root)?));
    }
    let mut report = Report::new(listener);
    for request in requests.cases.iter().filter(|request| wanted(&request.name)) {
        request_case(golden, request, &checkpoints, &mut report)?;
    }
    for (name, file, part) in parts.into_iter().filter(|(name, ..)| wanted(name)) {
        let path = golden.join(file);
        match part {
            None => report.unbuilt(&Place::new(name, None), "all stages"),
            Some(part) if part.needs_checkpoint() => {
                for (layout, checkpoint) in &checkpoints {
                    component(part, checkpoint, &path, &Place::new(name, Some(layout)), &mut report)?;
                }
            }
            Some(part) => plain(part, &path, &Place::new(name, None), &mut report)?,
        }
    }
    Ok(report.summary)
}

fn check_name(options: &Options, requests: &Requests, parts: &[(&str, &str, Option<Part>)]) -> Result<(), Error> {
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

fn request_case(
    golden: &Path,
    request: &Request,
    checkpoints: &[(&'static str, Checkpoint)],
    report: &mut Report<'_>,
) -> Result<(), Error> {
    if request.task != Task::T2va {
        report.unbuilt(&Place::new(&request.name, None), "all stages");
        return Ok(());
    }
    for (layout, checkpoint) in checkpoints {
        // Opened anew for each layout, since it remembers which stages were reached.
        let file = GoldenFile::open(golden.join(&request.file))?;
        t2va::verify(checkpoint, &file, request, &Place::new(&request.name, Some(layout)), report)?;
    }
    Ok(())
}

fn component(
    part: Part,
    checkpoint: &Checkpoint,
    path: &Path,
    place: &Place,
    report: &mut Report<'_>,
) -> Result<(), Error> {
    if part == Part::Tables {
        return tables::tables(checkpoint, path, place, report);
    }
    let file = GoldenFile::open(path.to_owned())?;
    match part {
        Part::Vae => components::video(checkpoint, &file, place, report),
        Part::VaeF16 => components::video_f16(checkpoint, &file, place, report),
        _ => components::audio(checkpoint, &file, place, report),
    }
}

fn plain(part: Part, path: &Path, place: &Place, report: &mut Report<'_>) -> Result<(), Error> {
    match part {
        Part::Layouts => tables::layouts(path, place, report),
        Part::Scheduler => tables::scheduler(&GoldenFile::open(path.to_owned())?, place, report),
        _ => tables::noise(&GoldenFile::open(path.to_owned())?, place, report),
    }
}
