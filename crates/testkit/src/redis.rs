//! A Redis server without data.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::port::Port;
use crate::process::{find_program, quiet_as};
use crate::server::Server;

/// How long a command of ours may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A Redis server of its own, without a password, on a port of 127.0.0.1.
///
/// It ends when this is dropped and when the process of the test ends in any way.
#[derive(Debug)]
pub struct Redis {
    port: Port,
    program: PathBuf,
    snapshots: bool,
    tls: Option<Port>,
    server: Server,
}

impl Redis {
    /// Starts a server that forgets everything when it ends.
    ///
    /// # Panics
    ///
    /// Panics if Redis is not installed or does not start.
    pub fn start() -> Self {
        Self::start_with(false, None)
    }

    /// Starts a server that comes back with what it held at its last [`save`](Self::save) or orderly
    /// [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// Panics if Redis is not installed or does not start.
    pub fn with_snapshots() -> Self {
        Self::start_with(true, None)
    }

    /// Starts a server that also speaks TLS, on a second port, with a certificate that signs itself.
    ///
    /// # Panics
    ///
    /// Panics if Redis, or the program `openssl` that makes the certificate, is not installed or does not start.
    pub fn with_tls() -> Self {
        Self::start_with(false, Some(Port::reserve()))
    }

    fn start_with(snapshots: bool, tls: Option<Port>) -> Self {
        let program = find_program("redis-server", []);
        let program = program.expect("this test needs a Redis server: apt-get install redis-server");
        let server = Server::new("redis-server", "KILL", None);
        let mut redis = Self { port: Port::reserve(), program, snapshots, tls, server };
        if redis.tls.is_some() {
            redis.make_certificate();
        }
        redis.start_again();
        redis
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.port.address())
    }

    /// Returns the URL for TLS of a server made [`with_tls`](Self::with_tls).
    ///
    /// # Panics
    ///
    /// Panics if this server does not speak it.
    pub fn tls_url(&self) -> String {
        let tls = self.tls.as_ref().expect("this server was made with TLS");
        format!("rediss://localhost:{}", tls.number())
    }

    /// Returns the file with the certificate that vouches for the server, which clients must be told to trust.
    pub fn certificate(&self) -> PathBuf {
        self.server.data().join("certificate.pem")
    }

    fn private_key(&self) -> PathBuf {
        self.server.data().join("key.pem")
    }

    fn make_certificate(&self) {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"]);
        openssl.args(["-subj", "/CN=localhost", "-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-addext", "subjectAltName=DNS:localhost"]);
        openssl.arg("-keyout").arg(self.private_key()).arg("-out").arg(self.certificate());
        let status = quiet_as(&mut openssl, None).status();
        let made = status.expect("this test needs openssl: apt-get install openssl").success();
        assert!(made, "openssl did not make a certificate");
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Shuts the server down in order.
    pub fn stop(&mut self) {
        self.server.end(Signal::TERM);
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.server.end(Signal::KILL);
    }

    /// Starts the server again on the same port.
    ///
    /// # Panics
    ///
    /// Panics if the server runs or does not start.
    pub fn start_again(&mut self) {
        let port = self.port.number().to_string();
        let save = if self.snapshots { "3600 1" } else { "" };
        let pairs = [("--port", port.as_str()), ("--bind", "127.0.0.1"), ("--save", save), ("--appendonly", "no")];
        let mut arguments: Vec<OsString> =
            pairs.iter().flat_map(|&(name, value)| [name.into(), value.into()]).collect();
        arguments.extend(["--dir".into(), self.server.data().into()]);
        if let Some(tls) = &self.tls {
            arguments.extend(["--tls-port".into(), tls.number().to_string().into(), "--tls-cert-file".into()]);
            arguments.extend([self.certificate().into(), "--tls-key-file".into(), self.private_key().into()]);
            arguments.extend(["--tls-auth-clients".into(), "no".into()]);
        }
        let address = self.port.address();
        self.server.run(&self.program, &arguments, |_| ask(address, "PING").is_ok_and(|answer| answer == "+PONG"));
    }

    /// Removes every key.
    pub fn flush(&self) {
        self.do_now("FLUSHALL");
    }

    /// Writes a snapshot to which a server made [`with_snapshots`](Self::with_snapshots) returns.
    pub fn save(&self) {
        self.do_now("SAVE");
    }

    fn do_now(&self, command: &str) {
        let answer = ask(self.port.address(), command);
        assert_eq!(answer.as_deref().ok(), Some("+OK"), "{command} failed: {answer:?}");
    }
}

/// Sends one command without arguments on a connection of its own and returns the first line of its answer.
fn ask(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_comes_back_empty_on_its_port() {
        let mut redis = Redis::start();
        assert_eq!(ask(redis.address(), "SET a 1").unwrap(), "+OK");
        redis.flush();
        assert_eq!(ask(redis.address(), "DBSIZE").unwrap(), ":0");
        assert_eq!(ask(redis.address(), "SET a 1").unwrap(), "+OK");
        redis.stop();
        ask(redis.address(), "PING").unwrap_err();
        redis.start_again();
        assert_eq!(ask(redis.address(), "DBSIZE").unwrap(), ":0");
        redis.kill();
        ask(redis.address(), "PING").unwrap_err();
        redis.start_again();
        assert_eq!(ask(redis.address(), "PING").unwrap(), "+PONG");
    }

    #[test]
    fn a_server_with_snapshots_comes_back_as_it_was_saved() {
        let mut redis = Redis::with_snapshots();
        assert_eq!(ask(redis.address(), "SET a old").unwrap(), "+OK");
        redis.save();
        assert_eq!(ask(redis.address(), "SET a new").unwrap(), "+OK");
        redis.kill();
        redis.start_again();
        assert_eq!(ask(redis.address(), "STRLEN a").unwrap(), ":3");
        assert_eq!(ask(redis.address(), "DEL a").unwrap(), ":1");
        redis.stop();
        redis.start_again();
        assert_eq!(ask(redis.address(), "DBSIZE").unwrap(), ":0");
    }
}
