//! Libraries in a folder of the service's own, where no dynamic linker looks.

use std::ffi::OsStr;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// The libraries that are opened by name later, each after those that it needs.
const NAMES: [&str; 5] = ["libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9", "libnccl.so.2"];

/// Opens the NVIDIA libraries that lie in `folder` for the rest of the process, so that a backend that is opened
/// afterwards finds them by their names. A machine's own libraries go first where the linker knows them by their names
/// without a version. Returns what was opened; a folder that is not there has nothing.
pub fn open_libraries_in(folder: &Path) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| open(&folder.join(name), name)).collect()
}

fn open(path: &Path, name: &str) -> bool {
    if !path.is_file() {
        return false;
    }
    // SAFETY: NVIDIA's libraries set up nothing when they are opened that a program could trip over; whoever may write
    // to the folder may choose what the process runs, as with any folder of the linker.
    match unsafe { Library::open(Some(OsStr::new(path)), RTLD_NOW | RTLD_GLOBAL) } {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_libraries_and_files_that_are_none_open_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(open_libraries_in(&folder.path().join("absent")).is_empty());
        std::fs::write(folder.path().join("libcudnn.so.9"), b"no library").unwrap();
        assert!(open_libraries_in(folder.path()).is_empty());
    }
}
