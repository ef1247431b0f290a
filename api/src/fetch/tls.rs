//! The TLS of a client that trusts whom the machine trusts.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

/// Makes TLS connections. The machine's certificates are read for the first one.
#[derive(Default)]
pub(super) struct Tls(OnceLock<Arc<ClientConfig>>);

impl Tls {
    /// Trusts these authorities alone.
    #[cfg(test)]
    pub(super) fn trusting(roots: RootCertStore) -> Self {
        Self(OnceLock::from(Arc::new(config(roots))))
    }

    /// Shakes hands with a host, which has to prove its name; none when it cannot.
    pub(super) async fn handshake(&self, host: &Host<&str>, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let name = match host {
            Host::Domain(name) => ServerName::try_from((*name).to_owned()).ok()?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::from(*address)),
        };
        let config = Arc::clone(self.0.get_or_init(|| Arc::new(config(system_roots()))));
        TlsConnector::from(config).connect(name, stream).await.ok()
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

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        tracing::warn!(
            ignored,
            errors = found.errors.len(),
            "this machine trusts no authority: no https URL can be fetched"
        );
    }
    roots
}
