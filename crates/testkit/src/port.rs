//! Ports that stay free for a server to come back to.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

/// A port of 127.0.0.1 that nobody else is given while this lives.
///
/// It is held by a socket that is bound and never listens: the kernel then hands the port to no other socket that asks
/// for any port, neither to listen nor to connect, while a server that names it and sets `SO_REUSEADDR` (as Postgres,
/// Redis and Rust's listeners do) gets it, also for a second time.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    held: OwnedFd,
}

impl Port {
    /// Reserves a free port.
    pub(crate) fn reserve() -> Self {
        let held = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a socket can be made");
        set_socket_reuseaddr(&held, true).expect("a new socket takes options");
        bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
        let name = getsockname(&held).expect("a bound socket has a name");
        let number = SocketAddr::try_from(name).expect("the name of an internet socket is an address").port();
        Self { number, held }
    }

    /// Returns the port's number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the address on 127.0.0.1.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

/// Returns a port of 127.0.0.1 on which nobody listens, and which no other test is given while this process lives.
///
/// A server that takes it must set `SO_REUSEADDR`, as every listener of the standard library and of tokio does.
pub fn free_port() -> u16 {
    let port = Port::reserve();
    // The descriptor stays open on purpose: it is what keeps the port for the caller.
    let _ = port.held.into_raw_fd();
    port.number
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_is_given_to_nobody_else_and_can_be_listened_on_twice() {
        let port = Port::reserve();
        for _ in 0..2 {
            let listener = TcpListener::bind(port.address()).unwrap();
            let client = TcpStream::connect(port.address()).unwrap();
            let (served, _) = listener.accept().unwrap();
            drop((listener, client, served));
        }
        TcpStream::connect(port.address()).unwrap_err();
        let others: Vec<Port> = (0..200).map(|_| Port::reserve()).collect();
        let numbers: BTreeSet<u16> = others.iter().chain([&port]).map(Port::number).collect();
        assert_eq!(numbers.len(), 201);
        assert!(!numbers.contains(&free_port()));
    }
}
