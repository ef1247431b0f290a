//! The data folder that every server begins with, made once per machine and copied.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::process::{User, find_program, quiet_as};
use crate::server::Server;

use super::{DATABASE, ROLE};

/// Counts up with what the template is made of.
const REVISION: u32 = 1;

/// A data folder in the temp dir, with the programs that made it.
#[derive(Debug)]
pub(super) struct Template {
    folder: PathBuf,
    postgres: PathBuf,
    user: Option<User>,
}

impl Template {
    /// Finds the template, or makes it: for several tests at once one does, and the others wait for it.
    pub(super) fn prepare(user: Option<User>) -> Self {
        let postgres = find_postgres();
        let version = Command::new(&postgres).arg("--version").output().expect("postgres tells its version").stdout;
        let version = String::from_utf8_lossy(&version);
        let version: String = version
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        let name = format!("clapboard-testkit-{}-pg{version}-{REVISION}", geteuid().as_raw());
        let folder = std::env::temp_dir().join(&name);
        let template = Self { folder, postgres, user };
        let lock = template.folder.with_file_name(format!("{name}.lock"));
        let locked = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let locked = locked.unwrap_or_else(|error| panic!("{} cannot be locked: {error}", lock.display()));
        if !template.folder.exists() {
            template.make();
        }
        drop(locked);
        // The temp dir belongs to everybody, and the data of a server says what it executes.
        let owner = fs::metadata(&template.folder).expect("the template is there").uid();
        let expected = user.map_or(geteuid().as_raw(), |user| user.uid);
        assert_eq!(owner, expected, "{} belongs to somebody else: remove it", template.folder.display());
        template
    }

    /// Fills an empty data folder.
    pub(super) fn copy_to(&self, data: &Path) {
        let mut command = Command::new("cp");
        command.args(["-a", "--reflink=auto"]).arg(self.folder.join(".")).arg(data);
        self.finish("cp", &mut command, "");
    }

    /// Returns the server program.
    pub(super) fn into_program(self) -> PathBuf {
        self.postgres
    }

    fn make(&self) {
        // A test that is killed here leaves no half-made folder: the scratch one goes with it.
        let scratch = Server::new("initdb", "KILL", self.user);
        let data = scratch.data();
        let mut initdb = Command::new(self.postgres.with_file_name("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", ROLE, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]);
        initdb.args(["--no-instructions", "--wal-segsize=1"]);
        self.finish("initdb", &mut initdb, "");
        let mut single = Command::new(&self.postgres);
        single.args(["--single", "-D"]).arg(&data).args(["-c", "fsync=off", "postgres"]);
        self.finish("postgres --single", &mut single, &format!("CREATE DATABASE {DATABASE} OWNER {ROLE}\n"));
        // Renaming works within one file system only, and the scratch folder may be in memory.
        let beside = self.folder.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::remove_dir_all(&beside);
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&data).arg(&beside);
        self.finish("cp", &mut copy, "");
        fs::rename(&beside, &self.folder).expect("the template can be put in its place");
    }

    /// Runs a program to its end as the server's user.
    fn finish(&self, name: &str, command: &mut Command, input: &str) {
        let mut child = quiet_as(command, self.user)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        let mut pipe = child.stdin.take().expect("its input is a pipe");
        pipe.write_all(input.as_bytes()).expect("the program reads its input");
        drop(pipe);
        let output = child.wait_with_output().expect("our own child can be waited for");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed: {}", said.trim());
    }
}

/// Finds the server program: the one on the `PATH`, else the newest where Debian keeps it.
fn find_postgres() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path()).collect();
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    let found = find_program("postgres", versions.into_iter().map(|version| version.join("bin")));
    let found = found.expect("this test needs a Postgres server: apt-get install postgresql");
    // Its companions lie beside the program itself, not beside a link to it.
    fs::canonicalize(found).expect("a file that was found has a name")
}
