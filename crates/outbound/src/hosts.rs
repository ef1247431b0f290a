//! Hosts that the operator names, which may be anywhere.

use std::net::Ipv6Addr;
use std::str::FromStr;

use url::Host;

/// A host that requests may name although it is not on the public internet: a name or an address, in whatever spelling a URL
/// has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost(Host<String>);

/// Says that a text is no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a host: give a name or an address alone, such as nas.home, 192.168.1.2 or fd00::1")]
pub struct InvalidHost {
    text: String,
}

impl AllowedHost {
    /// Tells whether a URL's host is this one.
    pub(crate) fn is(&self, host: &Host<&str>) -> bool {
        match (&self.0, host) {
            (Host::Domain(allowed), Host::Domain(name)) => allowed == without_dot(name),
            (Host::Ipv4(allowed), Host::Ipv4(address)) => allowed == address,
            (Host::Ipv6(allowed), Host::Ipv6(address)) => allowed == address,
            _ => false,
        }
    }
}

impl FromStr for AllowedHost {
    type Err = InvalidHost;

    /// Errors: for a text with more than a host, such as a port or a scheme, and for one that no URL could name.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let invalid = || InvalidHost { text: text.to_owned() };
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<Ipv6Addr>() {
            return Ok(Self(Host::Ipv6(address)));
        }
        // A URL may hold an asterisk, and whoever writes one here means a pattern, which is none.
        if text.contains('*') {
            return Err(invalid());
        }
        match Host::parse(text).map_err(|_| invalid())? {
            Host::Domain(name) => match without_dot(&name) {
                "" => Err(invalid()),
                name => Ok(Self(Host::Domain(name.to_owned()))),
            },
            address => Ok(Self(address)),
        }
    }
}

/// A name that ends in a dot is the same name, which is not looked for below others.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn every_spelling_of_a_host_is_that_host() {
        for (allowed, url) in [
            ("NAS.home", "http://nas.HOME:9000/x"),
            ("nas.home.", "http://nas.home/"),
            ("nas.home", "http://nas.home./"),
            ("[::1]", "http://[::1]:8080/"),
            ("::1", "http://[0:0::1]/"),
            ("FD00:0::1", "http://[fd00::1]/"),
            ("m\u{fc}ller.home", "http://xn--mller-kva.home/"),
            ("127.1", "http://127.0.0.1/"),
            ("127.0.0.1", "http://2130706433/"),
        ] {
            let host: AllowedHost = allowed.parse().unwrap();
            assert!(host.is(&Url::parse(url).unwrap().host().unwrap()), "{allowed} {url}");
        }
        let host: AllowedHost = "nas.home".parse().unwrap();
        for url in ["http://home/", "http://x.nas.home/", "http://127.0.0.1/", "http://nas.home.evil.example/"] {
            assert!(!host.is(&Url::parse(url).unwrap().host().unwrap()), "{url}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_a_sentence() {
        for text in ["", ".", "host:9000", "[::1]:80", "http://nas.home", "nas.home/x", "a b", "me@nas.home", "*.home"]
        {
            let message = text.parse::<AllowedHost>().unwrap_err().to_string();
            assert!(message.starts_with(&format!("{text:?} is not a host: give a name")), "{message}");
        }
    }
}
