//! Which of the two released layouts a directory holds, and where its components lie.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clapboard_h3::Partition;
use serde::Serialize;

use super::config::json::read_object;
use super::error::Error;
use crate::files::look;

/// The folder arrangement and tensor naming of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The release's own: partitions `FL2VA/` and `Ref2VA/`, fused and per-head interleaved projections.
    Original,
    /// The diffusers one: component folders under one root, split projections.
    Diffusers,
}

impl Layout {
    /// Returns the layout's name, as the command line spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Diffusers => "diffusers",
        }
    }
}

impl Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "original" => Ok(Self::Original),
            "diffusers" => Ok(Self::Diffusers),
            _ => Err(format!("unknown layout {text:?}, expected original or diffusers")),
        }
    }
}

/// The marker files of a diffusers checkpoint. The class name in `model_index.json` is no marker: an original snapshot
/// may advertise the modular class and still hold original weights.
const DIFFUSERS_MARKERS: [&str; 2] = ["modular_model_index.json", FASTVIDEO_MARKER];

/// The marker of a distilled FastVideo release.
pub(super) const FASTVIDEO_MARKER: &str = "fastvideo_inference.json";

/// Partition folders of the original layout.
const ORIGINAL_FOLDERS: [(Partition, &str); 2] = [(Partition::Fl2va, "FL2VA"), (Partition::Ref2va, "Ref2VA")];

/// Transformer folders of the diffusers layout.
const DIFFUSERS_FOLDERS: [(Partition, &str); 2] =
    [(Partition::Fl2va, "transformer"), (Partition::Ref2va, "transformer_ref")];

/// Where the parts of one checkpoint lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    root: PathBuf,
    layout: Layout,
    partitions: Vec<PartitionFolder>,
    bases: Vec<PathBuf>,
}

/// Where one partition lies.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PartitionFolder {
    partition: Partition,
    /// The folder of `model_index.json` (original) or the root (diffusers).
    base: PathBuf,
    transformer: PathBuf,
}

impl Location {
    /// Finds out what `dir` holds.
    ///
    /// `dir` may be the root of either layout, or one partition of the original layout; a partition folder named
    /// `FL2VA` or `Ref2VA` may take its shared components from its sibling.
    ///
    /// Errors: [`Error::NotADirectory`], [`Error::UnknownLayout`], and [`Error::Io`] for a folder that is there and cannot
    /// be looked at: it does not count as absent.
    pub fn detect(dir: &Path) -> Result<Self, Error> {
        let metadata = fs::metadata(dir).map_err(|source| Error::Io { doing: "open", path: dir.to_owned(), source })?;
        if !metadata.is_dir() {
            return Err(Error::NotADirectory(dir.to_owned()));
        }
        let mut marker = None;
        for candidate in DIFFUSERS_MARKERS {
            if marker.is_none() && is_file(&dir.join(candidate))? {
                marker = Some(candidate);
            }
        }
        if marker.is_some()
            && let Some(location) = Self::diffusers(dir)?
        {
            return Ok(location);
        }
        if let Some(location) = Self::original_root(dir)? {
            return Ok(location);
        }
        if is_dir(&dir.join("transformer"))? && is_file(&dir.join("model_index.json"))? {
            return Self::original_partition(dir);
        }
        let reason = match marker {
            Some(marker) => format!("{marker} is there, but neither transformer/ nor transformer_ref/"),
            None => {
                "looked for FL2VA/transformer/, Ref2VA/transformer/, modular_model_index.json, or model_index.json \
                     beside transformer/"
                    .to_owned()
            }
        };
        Err(Error::UnknownLayout { path: dir.to_owned(), reason })
    }

    fn diffusers(dir: &Path) -> Result<Option<Self>, Error> {
        let mut partitions = Vec::new();
        for (partition, name) in DIFFUSERS_FOLDERS {
            let transformer = dir.join(name);
            if is_dir(&transformer)? {
                partitions.push(PartitionFolder { partition, base: dir.to_owned(), transformer });
            }
        }
        let bases = vec![dir.to_owned()];
        Ok((!partitions.is_empty()).then(|| Self {
            root: dir.to_owned(),
            layout: Layout::Diffusers,
            partitions,
            bases,
        }))
    }

    fn original_root(dir: &Path) -> Result<Option<Self>, Error> {
        let (mut bases, mut partitions) = (Vec::new(), Vec::new());
        for (partition, name) in ORIGINAL_FOLDERS {
            let base = dir.join(name);
            let transformer = base.join("transformer");
            if is_dir(&base)? {
                bases.push(base.clone());
            }
            if is_dir(&transformer)? {
                partitions.push(PartitionFolder { partition, base, transformer });
            }
        }
        Ok((!partitions.is_empty()).then(|| Self { root: dir.to_owned(), layout: Layout::Original, partitions, bases }))
    }

    fn original_partition(dir: &Path) -> Result<Self, Error> {
        // `.` and `..` have no name of their own.
        let absolute = fs::canonicalize(dir);
        let named = ORIGINAL_FOLDERS.into_iter().find(|(_, folder)| {
            dir.ends_with(folder) || absolute.as_ref().is_ok_and(|absolute| absolute.ends_with(folder))
        });
        let mut bases = vec![dir.to_owned()];
        let partition = if let Some((partition, _)) = named {
            let siblings = ORIGINAL_FOLDERS.into_iter().filter(|(other, _)| *other != partition);
            let parent = absolute.as_ref().ok().and_then(|absolute| absolute.parent());
            bases.extend(siblings.filter_map(|(_, sibling)| Some(parent?.join(sibling))).filter(|s| s.is_dir()));
            partition
        } else {
            let path = dir.join("model_index.json");
            let index = read_object(&path)?;
            let name = index.get("_minimax_h3").and_then(|release| release.get("partition"));
            let name = name.and_then(|name| name.as_str()).unwrap_or_default();
            let known = ORIGINAL_FOLDERS.into_iter().find(|(_, folder)| folder.eq_ignore_ascii_case(name));
            let Some((partition, _)) = known else {
                let reason =
                    format!("_minimax_h3.partition of model_index.json must be fl2va or ref2va, found {name:?}");
                return Err(Error::UnknownLayout { path: dir.to_owned(), reason });
            };
            partition
        };
        Ok(Self {
            root: dir.to_owned(),
            layout: Layout::Original,
            partitions: vec![PartitionFolder { partition, base: dir.to_owned(), transformer: dir.join("transformer") }],
            bases,
        })
    }

    /// Returns the directory that was given.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the partitions that have a transformer, `fl2va` first.
    pub fn partitions(&self) -> Vec<Partition> {
        self.partitions.iter().map(|folder| folder.partition).collect()
    }

    /// Returns the transformer's folder of a partition.
    pub(super) fn transformer(&self, partition: Partition) -> Result<&Path, Error> {
        Ok(&self.folder(partition)?.transformer)
    }

    /// Returns the folder that holds a partition's `model_index.json` or schedulers.
    pub(super) fn base(&self, partition: Partition) -> Result<&Path, Error> {
        Ok(&self.folder(partition)?.base)
    }

    /// Returns the folder of the text encoder.
    pub(super) fn text_encoder(&self) -> Result<PathBuf, Error> {
        self.shared("text_encoder")
    }

    /// Returns the folder of the video VAE.
    pub(super) fn video_vae(&self) -> Result<PathBuf, Error> {
        self.shared(match self.layout {
            Layout::Original => "video_vae",
            Layout::Diffusers => "vae",
        })
    }

    /// Returns the folder of the audio VAE.
    pub(super) fn audio_vae(&self) -> Result<PathBuf, Error> {
        self.shared("audio_vae")
    }

    /// Returns the tokenizer's file.
    ///
    /// Errors: [`Error::Missing`], and [`Error::Io`] when it cannot be looked at.
    pub(super) fn tokenizer(&self) -> Result<PathBuf, Error> {
        let path = self.shared("tokenizer")?.join("tokenizer.json");
        if exists(&path)? { Ok(path) } else { Err(Error::Missing { what: "tokenizer".to_owned(), path }) }
    }

    /// Returns the folder of the processor.
    ///
    /// Errors: [`Error::Io`] when a place cannot be looked at.
    pub(super) fn processor(&self) -> Result<PathBuf, Error> {
        self.shared("processor")
    }

    /// Returns where Clapboard's own settings of a checkpoint would lie: beside the partitions.
    pub(super) fn settings(&self) -> Vec<PathBuf> {
        let mut places = vec![self.root.join("clapboard.json")];
        let single = self.layout == Layout::Original && self.partitions.iter().all(|f| f.base == self.root);
        if single && let Some(parent) = fs::canonicalize(&self.root).ok().as_deref().and_then(Path::parent) {
            places.push(parent.join("clapboard.json"));
        }
        places
    }

    fn folder(&self, partition: Partition) -> Result<&PartitionFolder, Error> {
        let found = self.partitions.iter().find(|folder| folder.partition == partition);
        found.ok_or_else(|| Error::NoPartition { root: self.root.clone(), partition })
    }

    /// Finds a component that both partitions share: the first place that has it, or the first place at all, so that
    /// an error can name it.
    ///
    /// Errors: [`Error::Io`] for a place that cannot be looked at; the next one does not quietly stand in for it.
    fn shared(&self, name: &str) -> Result<PathBuf, Error> {
        for base in &self.bases {
            let place = base.join(name);
            if is_dir(&place)? {
                return Ok(place);
            }
        }
        Ok(self.bases.first().unwrap_or(&self.root).join(name))
    }
}

/// Tells whether a path leads to a directory.
///
/// Errors: [`Error::Io`] when it cannot be looked at.
pub(super) fn is_dir(path: &Path) -> Result<bool, Error> {
    Ok(looked_at(path)?.is_some_and(|metadata| metadata.is_dir()))
}

/// Tells whether a path leads to a regular file.
///
/// Errors: [`Error::Io`] when it cannot be looked at.
pub(super) fn is_file(path: &Path) -> Result<bool, Error> {
    Ok(looked_at(path)?.is_some_and(|metadata| metadata.is_file()))
}

/// Tells whether a path leads to anything.
///
/// Errors: [`Error::Io`] when it cannot be looked at.
pub(super) fn exists(path: &Path) -> Result<bool, Error> {
    Ok(looked_at(path)?.is_some())
}

fn looked_at(path: &Path) -> Result<Option<fs::Metadata>, Error> {
    look(path).map_err(|source| Error::Io { doing: "open", path: path.to_owned(), source })
}
