//! The TLS of a client that trusts whom the machine trusts.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::error::{Cause, Error, Failed};

/// Makes TLS connections. The machine's certificates are read for the first one, and again as long as there are none.
#[derive(Default)]
pub struct Tls(OnceCell<Arc<ClientConfig>>);

impl Tls {
    /// Trusts these authorities alone.
    pub fn trusting(roots: RootCertStore) -> Self {
        Self(OnceCell::new_with(Some(Arc::new(config(roots)))))
    }

    /// Shakes hands with a host, which has to prove its name.
    ///
    /// Errors: [`Failed::Tls`] when it cannot; [`Error::Machine`] where nobody is trusted here.
    pub(crate) async fn handshake(&self, host: &Host<&str>, stream: TcpStream) -> Result<TlsStream<TcpStream>, Error> {
        let name = match host {
            Host::Domain(name) => ServerName::try_from((*name).to_owned()).map_err(Failed::Tls.because())?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::from(*address)),
        };
        let config = self.config(system_roots).await?;
        TlsConnector::from(config).connect(name, stream).await.map_err(Failed::Tls.because())
    }

    /// Returns whom to trust; kept once there is somebody.
    async fn config(
        &self,
        read: impl FnOnce() -> Result<RootCertStore, Cause> + Send + 'static,
    ) -> Result<Arc<ClientConfig>, Error> {
        let untrusting = |cause| Error::Machine { doing: "learn whom this machine trusts", cause };
        let read = async || {
            let roots = tokio::task::spawn_blocking(read).await.map_err(Cause::from).and_then(|roots| roots);
            roots.map(|roots| Arc::new(config(roots)))
        };
        self.0.get_or_try_init(read).await.cloned().map_err(untrusting)
    }
}

fn config(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider knows the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Reads the authorities that this machine trusts. Blocks.
///
/// Errors: when there is none.
fn system_roots() -> Result<RootCertStore, Cause> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, ignored) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(roots);
    }
    let said: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    Err(format!("no authority's certificate could be read: {ignored} cannot be used; {}", said.join("; ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn that_nobody_is_trusted_is_this_machines_fault_and_not_remembered() {
        let tls = Tls::default();
        let refused = tls.config(|| Err("there is none".into())).await;
        assert!(matches!(refused, Err(Error::Machine { .. })), "{refused:?}");
        tls.config(|| Ok(RootCertStore::empty())).await.unwrap();
        tls.config(|| Err("it was asked for again".into())).await.unwrap();
    }
}
