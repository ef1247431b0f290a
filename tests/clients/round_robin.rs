//! A load balancer without a memory: each request goes to the next server.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The longest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Passes each request on to the servers in turns. It asks them to close the connection after the reply, so that a client which
/// would keep one comes to the next server with its next request.
pub(crate) struct RoundRobin {
    address: SocketAddr,
    served: Arc<Vec<AtomicUsize>>,
}

impl RoundRobin {
    pub(crate) fn start(servers: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let served: Arc<Vec<AtomicUsize>> = Arc::new(servers.iter().map(|_| AtomicUsize::new(0)).collect());
        let counts = Arc::clone(&served);
        // Ends with the process: a thread that waits for a client holds nobody up.
        thread::spawn(move || {
            for (number, client) in listener.incoming().flatten().enumerate() {
                let turn = number % servers.len();
                counts[turn].fetch_add(1, Ordering::Relaxed);
                let server = servers[turn];
                // One that breaks off is the client's to notice.
                thread::spawn(move || pass(client, server).ok());
            }
        });
        Self { address, served }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests each server got.
    pub(crate) fn served(&self) -> Vec<usize> {
        self.served.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

fn pass(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let (head, rest) = read_head(&mut client)?;
    let mut server = TcpStream::connect(server)?;
    server.write_all(&closing(&head))?;
    server.write_all(&rest)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        // A client that goes away early is one for the server to notice.
        let _ = io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write)
    });
    let passed = io::copy(&mut server, &mut client);
    client.shutdown(Shutdown::Both)?;
    passed.map(drop)
}

/// Reads up to the empty line, and returns what came after it apart.
fn read_head(client: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = head.split_off(end + 4);
            return Ok((head, rest));
        }
        let count = client.read(&mut piece)?;
        if count == 0 || head.len() > MAX_HEAD_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&piece[..count]);
    }
}

/// The head with its wish about the connection replaced.
fn closing(head: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = head.split_inclusive(|&byte| byte == b'\n').collect();
    lines.retain(|line| !line.to_ascii_lowercase().starts_with(b"connection:"));
    lines.insert(1, b"connection: close\r\n");
    lines.concat()
}
