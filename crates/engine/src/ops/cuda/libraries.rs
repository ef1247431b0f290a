//! Libraries in a folder of the service's own, where no dynamic linker looks.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::context::has_driver;

/// A library that is opened by its name later, each after those that it needs.
struct Wanted {
    /// As it lies in the folder.
    name: &'static str,
    /// The name without a version, where whoever opens it later asks for that first.
    asked_first: Option<&'static str>,
}

/// cuDNN asks for NVRTC and cuBLAS by their full names; the engine itself for cuBLASLt and cuDNN.
const WANTED: [Wanted; 4] = [
    Wanted { name: "libnvrtc.so.13", asked_first: None },
    Wanted { name: "libcublasLt.so.13", asked_first: Some("libcublasLt.so") },
    Wanted { name: "libcublas.so.13", asked_first: None },
    Wanted { name: "libcudnn.so.9", asked_first: Some("libcudnn.so") },
];

/// Opens the NVIDIA libraries that lie in `folder` for the rest of the process, so that a backend that is opened
/// afterwards finds them by their names. Returns what was opened; a folder that is not there has nothing, and without a
/// driver nothing is of use.
///
/// Where the linker knows a library by its name without a version, that one is what is found later: then the folder's is
/// left alone, since two copies in one process would be mixed up.
pub fn open_libraries_in(folder: &Path) -> Vec<&'static str> {
    if has_driver() { open_all(folder) } else { Vec::new() }
}

fn open_all(folder: &Path) -> Vec<&'static str> {
    let open = |wanted: &Wanted| open(&folder.join(wanted.name), wanted);
    WANTED.iter().filter(|wanted| open(wanted)).map(|wanted| wanted.name).collect()
}

fn open(path: &Path, wanted: &Wanted) -> bool {
    let name = wanted.name;
    if !path.is_file() {
        return false;
    }
    if let Some(own) = wanted.asked_first.filter(|name| opens(name)) {
        tracing::warn!(name, own, "the machine's own library goes before that of the folder of GPU libraries");
        return false;
    }
    // SAFETY: NVIDIA's libraries set up nothing when they are opened that a program could trip over; whoever may write
    // to the folder may choose what the process runs, as with any folder of the linker. Their symbols stay their own.
    match unsafe { Library::open(Some(OsStr::new(path)), RTLD_NOW | RTLD_LOCAL) } {
        Ok(library) => {
            // Open until the process ends: others find it by its name.
            std::mem::forget(library);
            true
        }
        Err(error) => {
            tracing::warn!(name, %error, "a library of the folder of GPU libraries cannot be opened");
            false
        }
    }
}

/// Tells whether the linker finds a library of this name.
fn opens(name: &str) -> bool {
    // SAFETY: as above; it is closed again at once.
    unsafe { Library::open(Some(OsStr::new(name)), RTLD_NOW | RTLD_LOCAL) }.is_ok()
}

/// The files of NVIDIA's libraries that this process has mapped; none where that cannot be told.
pub(super) fn in_use() -> Vec<PathBuf> {
    std::fs::read_to_string("/proc/self/maps").map_or_else(|_| Vec::new(), |maps| nvidia_files(&maps))
}

/// Each of them once, of a process's map of its memory.
fn nvidia_files(maps: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| line.find('/').map(|start| PathBuf::from(&line[start..]));
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        ["libcuda.so", "libcublasLt.so", "libcudnn.so", "libnvrtc.so"].iter().any(|known| name.starts_with(known))
    };
    let files: BTreeSet<PathBuf> = maps.lines().filter_map(of_line).filter(is_ours).collect();
    files.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_libraries_and_files_that_are_none_open_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(open_all(&folder.path().join("absent")).is_empty());
        std::fs::write(folder.path().join("libcudnn.so.9"), b"no library").unwrap();
        assert!(open_all(folder.path()).is_empty());
    }

    #[test]
    fn files_are_told_once_and_others_not_at_all() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /opt/gpu libs/libcudnn.so.9\n\
                    7f01-7f02 rw-p 00000000 08:01 12 /opt/gpu libs/libcudnn.so.9\n\
                    7f02-7f03 r-xp 00000000 08:01 13 /usr/lib/libcuda.so.580.82\n\
                    7f03-7f04 r-xp 00000000 08:01 14 /usr/lib/libc.so.6\n\
                    7f04-7f05 rw-p 00000000 00:00 0\n";
        let expected = ["/opt/gpu libs/libcudnn.so.9", "/usr/lib/libcuda.so.580.82"].map(PathBuf::from);
        assert_eq!(nvidia_files(maps), expected);
    }
}
