//! A Postgres server with an empty database.

mod template;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;

use crate::port::Port;
use crate::process::{self, User};
use crate::server::Server;
use crate::until;

use self::template::Template;

/// The database that a new server has.
const DATABASE: &str = "clapboard";
/// Its owner, who is a superuser.
const ROLE: &str = "clapboard";

/// What a server for tests does not need: to outlive the machine, to be reached from elsewhere, to be copied.
/// `full_page_writes` stays on, because a killed process can leave half a page behind.
const SETTINGS: [&str; 11] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=128MB",
    "min_wal_size=16MB",
    "max_connections=200",
    "shared_buffers=32MB",
    // Files of the data folder rather than segments that outlive a killed server.
    "dynamic_shared_memory_type=mmap",
    "jit=off",
];

/// A Postgres server of its own, with the empty database `clapboard`, without passwords, on a port of 127.0.0.1.
///
/// It ends, and its data with it, when this is dropped and when the process of the test ends in any way.
#[derive(Debug)]
pub struct Postgres {
    port: Port,
    postgres: PathBuf,
    server: Server,
}

impl Postgres {
    /// Starts a server and waits until it can be used.
    ///
    /// # Panics
    ///
    /// Panics if Postgres is not installed or does not start.
    pub fn start() -> Self {
        let user = User::instead_of_root();
        let template = Template::prepare(user);
        // An immediate shutdown: the data is thrown away.
        let server = Server::new("postgres", "QUIT", user);
        template.copy_to(&server.data());
        let mut postgres = Self { port: Port::reserve(), postgres: template.into_program(), server };
        postgres.start_again();
        postgres
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        format!("postgres://{ROLE}@127.0.0.1:{}/{DATABASE}", self.port.number())
    }

    /// Returns the server's address.
    pub fn address(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    /// Shuts the server down in order: transactions are rolled back, connections closed, the data is kept. Without a
    /// server it does nothing.
    pub fn stop(&mut self) {
        self.server.end(Signal::INT);
    }

    /// Kills every process of the server at once, as a machine that fails does.
    pub fn kill(&mut self) {
        let Some(postmaster) = self.server.pid().map(u32::cast_signed) else { return };
        // A stopped postmaster starts no further process while its children are counted.
        process::signal(postmaster, Signal::STOP);
        let children = process::children(postmaster);
        for &child in &children {
            process::signal(child, Signal::KILL);
        }
        self.server.end(Signal::KILL);
        // As long as one of them is there, a new server refuses the data.
        until("the end of postgres's processes", || (!children.iter().any(|&pid| process::runs(pid))).then_some(()));
    }

    /// Starts the server again, on the same port and over the same data.
    ///
    /// # Panics
    ///
    /// Panics if the server runs or does not start.
    pub fn start_again(&mut self) {
        let data = self.server.data();
        let mut arguments: Vec<OsString> = vec!["-D".into(), data.clone().into()];
        arguments.extend(["-p".into(), self.port.number().to_string().into()]);
        for setting in SETTINGS {
            arguments.extend(["-c".into(), setting.into()]);
        }
        let pid_file = data.join("postmaster.pid");
        self.server.run(&self.postgres, &arguments, |pid| {
            // The first line is the process, the eighth its state.
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            lines.first() == Some(&pid.to_string().as_str()) && lines.get(7) == Some(&"ready")
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn ask(postgres: &Postgres, sql: &str) -> Result<String, String> {
        let psql = postgres.postgres.with_file_name("psql");
        let output = Command::new(psql).arg(postgres.url()).args(["-XAtc", sql]).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    #[test]
    fn what_was_committed_survives_a_stop_and_a_kill() {
        let mut postgres = Postgres::start();
        ask(&postgres, "create table t (x int); insert into t values (1)").unwrap();
        let url = postgres.url();
        postgres.stop();
        ask(&postgres, "select 1").unwrap_err();
        postgres.start_again();
        ask(&postgres, "insert into t values (2)").unwrap();
        postgres.kill();
        ask(&postgres, "select 1").unwrap_err();
        postgres.start_again();
        assert_eq!(ask(&postgres, "select sum(x) from t"), Ok("3".to_owned()));
        assert_eq!(postgres.url(), url);
    }

    #[test]
    fn every_server_is_its_own_and_leaves_no_folder() {
        let (one, two) = (Postgres::start(), Postgres::start());
        ask(&one, "create table t ()").unwrap();
        ask(&two, "create table t ()").unwrap();
        let folders = [one.server.data(), two.server.data()];
        assert!(folders.iter().all(|folder| folder.exists()));
        drop((one, two));
        assert!(!folders.iter().any(|folder| folder.parent().unwrap().exists()));
    }
}
