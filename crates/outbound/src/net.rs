//! Names, addresses and connections, behind a trait: tests record where requests would go.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::{Error, Failed};

/// How long one of a host's addresses may take to answer, so that a dead one leaves time for the next.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the system's resolver may take: whom it asks is away then, which is not the fault of any host.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What the system's resolver says, in glibc's and musl's words, of a name that has no address, or can have none. Its code is
/// not told. All else may be the fault of whom it asks.
const NO_SUCH_NAME: [&str; 5] = [
    "Name or service not known",
    "No address associated with hostname",
    "Non-recoverable failure in name resolution",
    "Name does not resolve",
    "Name has no usable address",
];
/// What the system says of a connection for which this machine lacks something.
const LACKING: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];

/// The network as a request uses it.
#[async_trait]
pub trait Net: Send + Sync {
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
        Ok(timeout(RESOLVE_TIMEOUT, tokio::net::lookup_host((host, port))).await??.collect())
    }

    async fn connect(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to connect to");
        for address in addresses {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) if is_lacking(&error) => return Err(error),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}

/// Classes why a name was not resolved.
pub(crate) fn unresolved(error: io::Error) -> Error {
    let said = error.to_string();
    let is_unknown = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
        || NO_SUCH_NAME.iter().any(|words| said.contains(words));
    if is_unknown {
        return Failed::UnknownHost.because()(error);
    }
    Error::Machine { doing: "look up the name of a host", cause: error.into() }
}

/// Classes why no connection was made.
pub(crate) fn unconnected(error: io::Error) -> Error {
    if is_lacking(&error) {
        return Error::Machine { doing: "make a connection", cause: error.into() };
    }
    Failed::Unreachable.because()(error)
}

/// Tells whether it is this machine that lacks something, and not the host that does not answer.
fn is_lacking(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| LACKING.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_not_there_is_told_from_a_machine_that_cannot_look() {
        let said = |words: &str| unresolved(io::Error::other(format!("failed to lookup address information: {words}")));
        for words in NO_SUCH_NAME {
            assert!(matches!(said(words), Error::Failed { why: Failed::UnknownHost, cause: Some(_) }), "{words}");
        }
        for words in ["Temporary failure in name resolution", "Memory allocation failure", "System error"] {
            assert!(matches!(said(words), Error::Machine { .. }), "{words}");
        }
        let late = unresolved(io::ErrorKind::TimedOut.into());
        assert!(matches!(late, Error::Machine { .. }), "{late:?}");
        let full = unresolved(io::Error::from(Errno::MFILE));
        assert!(matches!(full, Error::Machine { .. }), "{full:?}");
    }

    #[test]
    fn what_this_machine_lacks_is_not_the_hosts_fault() {
        for errno in LACKING {
            assert!(matches!(unconnected(errno.into()), Error::Machine { .. }), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::TIMEDOUT, Errno::CONNRESET] {
            let failed = unconnected(errno.into());
            assert!(matches!(failed, Error::Failed { why: Failed::Unreachable, cause: Some(_) }), "{errno}");
        }
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_is_not_known() {
        let error = SystemNet.resolve(&"x".repeat(300), 80).await.unwrap_err();
        assert!(matches!(unresolved(error), Error::Failed { why: Failed::UnknownHost, .. }));
    }
}
