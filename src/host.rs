//! The machine's name.

use rustix::system::uname;

/// Returns the name that the machine has for itself, for operators to find a worker by.
pub(crate) fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}
