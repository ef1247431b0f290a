//! Names, addresses and connections, behind a trait: tests record where a fetch would go.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long one of a host's addresses may take to answer, so that a dead one leaves time for the next.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The network as a fetch uses it.
#[async_trait]
pub(crate) trait Net: Send + Sync {
    /// Returns the addresses of a host's name.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to the first of these addresses that answers, and to no other.
    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream>;
}

/// The machine's own network.
pub(crate) struct SystemNet;

#[async_trait]
impl Net for SystemNet {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to connect to");
        for address in addresses {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}
