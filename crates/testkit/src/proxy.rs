//! A network that misbehaves on demand.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::background::Background;

/// What a [`FaultProxy`] does with its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Passes every byte on.
    Pass,
    /// Resets every connection, those that are there as well as new ones.
    Refuse,
    /// Accepts connections and passes nothing on, in no direction, as a frozen server does: what clients write fills
    /// the buffers. All of it is passed on once the mode is [`Pass`](Self::Pass) again.
    Hang,
}

/// A TCP proxy on a port of 127.0.0.1, which passes everything on until told otherwise.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    cut: Cut,
    _running: Background,
}

/// How many response bytes still pass before a connection is closed, where one is to be.
type Cut = Arc<Mutex<Option<u64>>>;

impl FaultProxy {
    /// Starts a proxy in front of a server, which need not be there yet.
    pub fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let address = listener.local_addr().expect("a listener has an address");
        let (mode, mode_seen) = watch::channel(Mode::Pass);
        let cut = Cut::default();
        let shared = Arc::clone(&cut);
        let running = Background::spawn("testkit-proxy", move || serve(listener, target, mode_seen, shared));
        Self { address, mode, cut, _running: running }
    }

    /// Returns the address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the mode.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Closes one connection in the middle of a response, once: after `bytes` more response bytes, counted over all
    /// connections, the connection that would carry the next one is closed instead.
    pub fn cut_after(&self, bytes: u64) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, mode: watch::Receiver<Mode>, cut: Cut) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener does not block");
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        let (mode, cut) = (mode.clone(), Arc::clone(&cut));
        tokio::spawn(async move {
            let mut refusing = mode.clone();
            let in_order = tokio::select! {
                biased;
                _ = refusing.wait_for(|mode| *mode == Mode::Refuse) => false,
                ended = connect_and_pass(&mut client, target, mode, &cut) => ended.is_ok(),
            };
            if !in_order {
                // The close becomes a reset.
                let _ = set_socket_linger(&client, Some(Duration::ZERO));
            }
        });
    }
}

async fn connect_and_pass(
    client: &mut TcpStream,
    target: SocketAddr,
    mut mode: watch::Receiver<Mode>,
    cut: &Cut,
) -> io::Result<()> {
    until_passing(&mut mode).await?;
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let uncut = Cut::default();
    let requests = pass(from_client, to_server, mode.clone(), &uncut);
    let responses = pass(from_server, to_client, mode, cut);
    tokio::pin!(requests, responses);
    // Requests that have ended leave their responses to come; a response that was cut ends both directions.
    let mut requests_ended = false;
    loop {
        tokio::select! {
            flow = &mut requests, if !requests_ended => { flow?; requests_ended = true; }
            flow = &mut responses => return flow,
        }
    }
}

async fn until_passing(mode: &mut watch::Receiver<Mode>) -> io::Result<()> {
    let passing = mode.wait_for(|mode| *mode != Mode::Hang).await;
    passing.map(drop).map_err(|_| io::Error::other("the proxy has ended"))
}

/// Passes bytes on until there are no more or the cut is reached.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
    cut: &Cut,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        until_passing(&mut mode).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let passed = take_from(cut, read);
        to.write_all(&buffer[..passed]).await?;
        if passed < read {
            return to.shutdown().await;
        }
    }
}

/// Returns how many of the bytes may pass, and disarms the cut that stops one of them.
fn take_from(cut: &Cut, bytes: usize) -> usize {
    let mut cut = cut.lock().unwrap_or_else(PoisonError::into_inner);
    match *cut {
        Some(left) if left < bytes as u64 => {
            *cut = None;
            usize::try_from(left).unwrap_or(bytes)
        }
        Some(left) => {
            *cut = Some(left - bytes as u64);
            bytes
        }
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::until;

    /// Starts a server that sends back what it gets, and returns its address.
    fn echo() -> (Background, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let running = Background::spawn("echo", move || async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        (running, address)
    }

    fn connect(proxy: &FaultProxy) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn answers(stream: &mut std::net::TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(text)?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).map(|()| answer)
    }

    #[test]
    fn a_passing_proxy_changes_nothing() {
        let (_echo, target) = echo();
        let proxy = FaultProxy::start(target);
        let mut stream = connect(&proxy);
        let large: Vec<u8> = (0..100_000_u32).map(|i| i.to_le_bytes()[0]).collect();
        assert_eq!(answers(&mut stream, &large[..50_000]).unwrap(), large[..50_000]);
        stream.write_all(b"last").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "last");
    }

    #[test]
    fn a_refusing_proxy_resets_old_and_new_connections_until_it_passes_again() {
        let (_echo, target) = echo();
        let proxy = FaultProxy::start(target);
        let mut old = connect(&proxy);
        assert_eq!(answers(&mut old, b"hello").unwrap(), b"hello");
        proxy.set(Mode::Refuse);
        assert_eq!(old.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let mut new = connect(&proxy);
        assert_eq!(new.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        proxy.set(Mode::Pass);
        assert_eq!(answers(&mut connect(&proxy), b"hello").unwrap(), b"hello");
    }

    #[test]
    fn a_hanging_proxy_answers_once_it_passes_again() {
        let (_echo, target) = echo();
        let proxy = FaultProxy::start(target);
        let mut old = connect(&proxy);
        assert_eq!(answers(&mut old, b"hello").unwrap(), b"hello");
        proxy.set(Mode::Hang);
        let mut new = connect(&proxy);
        for stream in [&mut old, &mut new] {
            stream.write_all(b"again").unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        }
        proxy.set(Mode::Pass);
        for stream in [&mut old, &mut new] {
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"again");
        }
    }

    #[test]
    fn a_cut_closes_one_connection_in_the_middle_of_a_response() {
        let (_echo, target) = echo();
        let proxy = FaultProxy::start(target);
        proxy.cut_after(7);
        let mut stream = connect(&proxy);
        assert_eq!(answers(&mut stream, b"hello").unwrap(), b"hello");
        stream.write_all(b"world").unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"wo");
        assert_eq!(answers(&mut connect(&proxy), b"a longer one").unwrap(), b"a longer one");
    }

    #[test]
    fn a_server_that_is_not_there_is_a_reset() {
        let gone = crate::free_port();
        let proxy = FaultProxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, gone)));
        assert_eq!(connect(&proxy).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let _server = TcpListener::bind((Ipv4Addr::LOCALHOST, gone)).unwrap();
        until("a connection through the proxy", || connect(&proxy).write(b"x").ok());
    }
}
