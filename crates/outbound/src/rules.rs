//! Where requests may go.

use std::net::IpAddr;

use url::{Host, Url};

use crate::address::is_public;
use crate::error::Forbidden;
use crate::hosts::AllowedHost;

/// The lowest port, besides those of HTTP itself, that a URL may name: the ones below are of other services.
pub const LEAST_HIGH_PORT: u16 = 1024;

/// Where requests may go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The hosts that may be anywhere, and speak without encryption.
    open_hosts: Vec<AllowedHost>,
    https_only: bool,
}

impl Rules {
    /// Lets requests go to the public internet, and to these hosts wherever they are.
    pub fn new(open_hosts: Vec<AllowedHost>) -> Self {
        Self { open_hosts, https_only: false }
    }

    /// Demands https of all hosts but those that may be anywhere.
    pub fn https_only(self) -> Self {
        Self { https_only: true, ..self }
    }

    /// Checks a URL as far as that can be done before its host's name is looked up: scheme, user name and password, port,
    /// and the address where one stands in place of a name.
    ///
    /// Errors: [`Forbidden`].
    pub fn check(&self, url: &Url) -> Result<(), Forbidden> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Forbidden::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Forbidden::Credentials);
        }
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Forbidden::Scheme);
        };
        if !matches!(port, 80 | 443 | LEAST_HIGH_PORT..) {
            return Err(Forbidden::Port(port));
        }
        if self.is_open(&host) {
            return Ok(());
        }
        let is_closed = match host {
            Host::Ipv4(address) => !is_public(address.into()),
            Host::Ipv6(address) => !is_public(address.into()),
            Host::Domain(_) => false,
        };
        if is_closed {
            return Err(Forbidden::Address);
        }
        if self.https_only && url.scheme() != "https" {
            return Err(Forbidden::Plaintext);
        }
        Ok(())
    }

    /// Checks the addresses that a host's name has.
    ///
    /// Errors: [`Forbidden::Address`] where one is not public: among those that are, it is no accident.
    pub(crate) fn admit(
        &self,
        host: &Host<&str>,
        mut addresses: impl Iterator<Item = IpAddr>,
    ) -> Result<(), Forbidden> {
        if self.is_open(host) || addresses.all(is_public) { Ok(()) } else { Err(Forbidden::Address) }
    }

    /// Tells whether a host may be anywhere.
    fn is_open(&self, host: &Host<&str>) -> bool {
        self.open_hosts.iter().any(|open| open.is(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &Rules, url: &str) -> Result<(), Forbidden> {
        rules.check(&Url::parse(url).unwrap())
    }

    #[test]
    fn a_url_is_refused_for_what_can_be_seen_of_it() {
        let rules = Rules::new(vec!["nas.home".parse().unwrap(), "192.168.1.2".parse().unwrap()]);
        for (url, expected) in [
            ("https://a.example/x?y=1#z", Ok(())),
            ("http://a.example:8080/", Ok(())),
            ("http://nas.home:9000/", Ok(())),
            ("http://192.168.1.2/", Ok(())),
            ("https://8.8.8.8/", Ok(())),
            ("ftp://a.example/", Err(Forbidden::Scheme)),
            ("file:///etc/passwd", Err(Forbidden::Scheme)),
            ("data:,x", Err(Forbidden::Scheme)),
            ("https://me@a.example/", Err(Forbidden::Credentials)),
            ("https://:secret@a.example/", Err(Forbidden::Credentials)),
            ("https://me@nas.home/", Err(Forbidden::Credentials)),
            ("https://a.example:22/", Err(Forbidden::Port(22))),
            ("http://nas.home:25/", Err(Forbidden::Port(25))),
            ("https://192.168.1.3/", Err(Forbidden::Address)),
            ("https://[::1]/", Err(Forbidden::Address)),
            ("https://0x7f.1/", Err(Forbidden::Address)),
        ] {
            assert_eq!(check(&rules, url), expected, "{url}");
        }
    }

    #[test]
    fn where_https_is_demanded_only_hosts_that_may_be_anywhere_go_without() {
        let rules = Rules::new(vec!["nas.home".parse().unwrap()]).https_only();
        assert_eq!(check(&rules, "https://a.example/"), Ok(()));
        assert_eq!(check(&rules, "http://nas.home:9000/"), Ok(()));
        assert_eq!(check(&rules, "http://a.example/"), Err(Forbidden::Plaintext));
        assert_eq!(check(&rules, "http://127.0.0.1:9000/"), Err(Forbidden::Address));
    }
}
