//! Makes a new migration file rebuild the crate, which embeds them all.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(b"cargo:rerun-if-changed=../../migrations/postgres\n")
}
