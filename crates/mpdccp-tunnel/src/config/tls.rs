//! Settings of paths over TLS.

use super::{Remote, Secret};
use serde::Deserialize;

/// How a client checks a server's certificate.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum TlsCheck {
    /// No check. The keys of the tunnel authenticate the server.
    #[default]
    None,
    /// The certificate must be valid for `tls_name`, and issued by an authority that this host trusts.
    Name,
    /// The certificate must have this SHA-256 digest.
    Sha256([u8; 32]),
}

impl TryFrom<String> for TlsCheck {
    type Error = String;
    fn try_from(text: String) -> Result<TlsCheck, String> {
        let digest = |hex: &str| -> Option<[u8; 32]> {
            let digits: String = hex.chars().filter(|c| *c != ':').collect();
            let digits = Some(digits).filter(|d| d.len() == 64 && d.is_ascii())?;
            let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            let bytes: Option<Vec<u8>> = (0..64).step_by(2).map(byte).collect();
            bytes?.try_into().ok()
        };
        match (text.as_str(), text.strip_prefix("sha256:").and_then(digest)) {
            ("none", _) => Ok(TlsCheck::None),
            ("name", _) => Ok(TlsCheck::Name),
            (_, Some(digest)) => Ok(TlsCheck::Sha256(digest)),
            _ => Err(format!(
                "unknown check `{text}`, expected \"none\", \"name\" or \"sha256:\" and 64 hexadecimal digits"
            )),
        }
    }
}

/// HTTP proxy through which a client connects to the server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Proxy {
    /// Address or name of the proxy, and its port.
    pub at: Remote,
    /// User and password, separated by a colon.
    pub login: Option<Secret>,
}

impl TryFrom<String> for Proxy {
    type Error = String;
    fn try_from(text: String) -> Result<Proxy, String> {
        // The error omits the value, which may contain a password.
        let wrong = || {
            "invalid proxy; examples: \"192.0.2.8:3128\", \"proxy.example.org:8080\", \"http://USER:PASSWORD@192.0.2.8:3128\""
                .to_owned()
        };
        let rest = text.strip_prefix("http://").unwrap_or(&text).trim_end_matches('/');
        let (login, host) = rest.rsplit_once('@').map_or((None, rest), |(login, host)| (Some(login), host));
        let odd = |login: &str| !login.contains(':') || login.chars().any(char::is_control);
        let at = Remote::try_from(host.to_owned()).ok().filter(|at| at.port.is_some_and(|port| port > 0));
        match at {
            Some(at) if !login.is_some_and(odd) => {
                Ok(Proxy { at, login: login.map(|login| login.to_owned().into()) })
            }
            _ => Err(wrong()),
        }
    }
}

/// Returns the default TCP port for TLS, which is the HTTPS port.
pub(crate) fn tls_port() -> u16 {
    443
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_have_a_port_and_perhaps_a_password() {
        let read = |text: &str| Proxy::try_from(text.to_owned());
        let plain = read("192.0.2.8:3128").unwrap();
        assert_eq!((plain.at.to_string(), plain.login.is_none()), ("192.0.2.8:3128".into(), true));
        assert_eq!(read("http://192.0.2.8:3128/"), Ok(plain));
        let login = |text: &str| read(text).unwrap().login.unwrap().0.to_string();
        assert_eq!(login("http://ann:a:b@c@[2001:db8::8]:3128"), "ann:a:b@c");
        assert_eq!(login("ann:@proxy.example.org:80"), "ann:");
        for wrong in
            ["", "192.0.2.8", "192.0.2.8:0", "https://192.0.2.8:3128", "secret@192.0.2.8:3128", "a:\n@h:1"]
        {
            let error = read(wrong).unwrap_err();
            assert!(error.starts_with("invalid proxy") && !error.contains("secret"), "{wrong}: {error}");
        }
    }
}
