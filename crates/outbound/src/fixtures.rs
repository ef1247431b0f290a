//! A network for tests: names are answered as a table says, and whatever is connected to is one local server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tokio::net::TcpStream;

use crate::net::Net;

/// Answers names as a table says, records where requests would go, and connects to one local server.
#[derive(Debug)]
pub struct RecordedNet {
    names: Vec<(&'static str, Vec<IpAddr>)>,
    server: SocketAddr,
    /// What was asked for and connected to, in order.
    log: Mutex<Vec<String>>,
}

impl RecordedNet {
    /// Makes a network of these names. One that stands several times has another answer each time it is asked
    /// for, up to the last, which stays.
    ///
    /// # Panics
    ///
    /// Panics at a text that is no address.
    pub fn new(names: &[(&'static str, &[&str])], server: SocketAddr) -> Self {
        let parse = |text: &&str| text.parse().expect("the test writes addresses");
        let names = names.iter().map(|(name, addresses)| (*name, addresses.iter().map(parse).collect())).collect();
        Self { names, server, log: Mutex::default() }
    }

    /// Returns what was asked for and connected to: `resolve NAME`, and `connect` with every address.
    pub fn log(&self) -> Vec<String> {
        self.with(|log| log.clone())
    }

    /// Forgets what was asked for.
    pub fn clear(&self) {
        self.with(Vec::clear);
    }

    /// Tells whether anything was connected to.
    pub fn connected(&self) -> bool {
        self.with(|log| log.iter().any(|line| line.starts_with("connect")))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<String>) -> T) -> T {
        act(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Net for RecordedNet {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let line = format!("resolve {host}");
        let times = self.with(|log| {
            let times = log.iter().filter(|before| **before == line).count();
            log.push(line);
            times
        });
        let answers: Vec<_> = self.names.iter().filter(|(name, _)| *name == host).collect();
        let (_, addresses) = answers.get(times).or(answers.last()).ok_or(io::ErrorKind::NotFound)?;
        Ok(addresses.iter().map(|address| SocketAddr::from((*address, port))).collect())
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let shown: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
        self.with(|log| log.push(format!("connect {}", shown.join(" "))));
        TcpStream::connect(self.server).await
    }
}
