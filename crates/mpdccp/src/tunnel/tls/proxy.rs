//! The CONNECT request to an HTTP proxy and the proxy's answer.

use super::connection::End;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mpdccp_tunnel::config::Secret;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use zeroize::Zeroizing;

/// Size limit of the proxy's answer, in bytes.
const ANSWER: usize = 8 << 10;

/// Returns the request for a connection to `to`, including the user and password if given.
pub(super) fn request(to: SocketAddr, login: Option<&Secret>) -> Zeroizing<String> {
    let login = login.map(|login| {
        let words = Zeroizing::new(BASE64_STANDARD.encode(login.0.as_bytes()));
        Zeroizing::new(format!("Proxy-Authorization: Basic {}\r\n", *words))
    });
    let login = login.as_deref().map_or("", String::as_str);
    format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{login}\r\n").into()
}

/// Reads the proxy's answer. Returns true if the answer is complete and positive, and false if it is
/// incomplete. Returns an error if the proxy refused or the connection failed.
pub(super) fn accepts(mut stream: &TcpStream, answer: &mut Vec<u8>, has_login: bool) -> Result<bool, End> {
    // Read one byte at a time, because bytes after the proxy's answer belong to the TLS connection and must
    // not be read here.
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(0) => return Err(End::Closed),
            Ok(_) if answer.len() >= ANSWER => {
                return Err(io::Error::other("the proxy's answer is too long").into());
            }
            Ok(_) => answer.extend_from_slice(&byte),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e.into()),
        }
    }
    let line = String::from_utf8_lossy(answer);
    let line = line.lines().next().unwrap_or_default();
    let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default();
    let why = match (status, has_login) {
        (status, _) if status.starts_with('2') => return Ok(true),
        ("407", false) => {
            "the proxy requires a password; set proxy = \"http://USER:PASSWORD@HOST:PORT\"".to_owned()
        }
        ("407", true) => "the proxy refuses the user or password in `proxy`".to_owned(),
        _ => {
            let line: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
            format!("the proxy refuses: {line}")
        }
    };
    Err(io::Error::other(why).into())
}
