//! An HTTP server for Prometheus and browsers, which answers only GET requests. Each connection has its own
//! thread, so that a slow client does not delay others.

use crate::error::Error;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size limit of a request, in bytes.
const MAX_REQUEST: usize = 8192;
/// The client must send its request within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of open connections. If another client connects, the oldest connection is closed.
const MOST: usize = 32;

/// Response to a request.
pub(crate) struct Response {
    pub(crate) code: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn ok(kind: &'static str, body: String) -> Response {
        Response { code: "200 OK", kind, body }
    }

    pub(crate) fn not_here(words: &str) -> Response {
        Response { code: "404 Not Found", kind: "text/plain", body: format!("{words}\n") }
    }

    /// Returns the response to give while the tunnel is ending.
    pub(crate) fn ending() -> Response {
        Response { code: "503 Service Unavailable", kind: "text/plain", body: String::new() }
    }
}

/// Opens the listening socket. `key` is the configuration key to name in errors.
pub(crate) fn listen(key: &'static str, at: SocketAddr) -> Result<TcpListener, Error> {
    let listener = TcpListener::bind(at).map_err(|e| {
        let what = format!("{key}: cannot listen on {at}: {e}; choose another address or port");
        Error::missing(e.kind() == ErrorKind::AddrNotAvailable, what)
    })?;
    if !at.ip().is_loopback() {
        tracing::warn!("{key}: every host that reaches {at} can read this page");
    }
    Ok(listener)
}

/// Serves requests. `respond` returns the response for a URL path. The threads run until the process ends.
pub(crate) fn serve(
    key: &'static str,
    listener: TcpListener,
    respond: impl Fn(&str) -> Response + Send + Sync + 'static,
) -> Result<(), Error> {
    let respond = Arc::new(respond);
    let thread = move |name: &'static str| std::thread::Builder::new().name(name.into());
    thread(key).spawn(move || {
        let mut asking: VecDeque<Arc<TcpStream>> = VecDeque::new();
        for stream in listener.incoming() {
            let Ok(stream) = stream.map(Arc::new) else {
                // Without a free descriptor, the connection stays queued, so accept fails again at once.
                std::thread::sleep(Duration::from_secs(1));
                continue;
            };
            // Remove finished connections, which only this list still holds.
            asking.retain(|stream| Arc::strong_count(stream) > 1);
            if asking.len() >= MOST
                && let Some(oldest) = asking.pop_front()
            {
                let _ = oldest.shutdown(Shutdown::Both);
            }
            let (respond, asks) = (respond.clone(), stream.clone());
            let answers = thread(key).spawn(move || {
                if let Err(e) = answer(&asks, &*respond) {
                    tracing::debug!("{key}: {e}");
                }
                // Shut the connection down explicitly, because the list still holds another handle to it.
                let _ = asks.shutdown(Shutdown::Both);
            });
            match answers {
                Ok(_) => asking.push_back(stream),
                Err(e) => tracing::debug!("{key}: cannot start a thread: {e}"),
            }
        }
    })?;
    Ok(())
}

/// Returns whether the Host header is an address, `localhost` or missing. Other names are refused: a
/// malicious page could make a name of its own resolve to this host (DNS rebinding), and then read data that
/// only this host may see.
fn is_address(request: &str) -> bool {
    let mut lines = request.lines().skip(1).filter_map(|line| line.split_once(':'));
    let host = lines.find(|(name, _)| name.eq_ignore_ascii_case("host")).map_or("", |(_, host)| host.trim());
    let name =
        host.strip_suffix(|c: char| c.is_ascii_digit()).map_or(host, |_| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
            _ => host,
        });
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.is_empty() || name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

fn answer(mut stream: &TcpStream, respond: &impl Fn(&str) -> Response) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    let end = Instant::now() + PATIENCE;
    while !request.windows(4).any(|w| w == b"\r\n\r\n") && request.len() < MAX_REQUEST {
        // The time limit applies to the whole request. If it applied to each byte, slow clients could occupy
        // all connections.
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            n => request.extend_from_slice(&piece[..n]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    // The pages have no parameters, so ignore a query, which Prometheus can be configured to add.
    let path = text.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next());
    let Response { code, kind, body } = match path {
        Some(path) if is_address(&text) => respond(path),
        Some(_) => Response {
            code: "421 Misdirected Request",
            ..Response::not_here("use an address instead of a name, such as http://192.0.2.1:9586/")
        },
        None => Response {
            code: "405 Method Not Allowed",
            ..Response::not_here("only GET requests are supported")
        },
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; connect-src 'self'; \
         script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_sent_by_address_are_answered() {
        let host =
            |host: &str| is_address(&format!("GET / HTTP/1.1\r\nUser-Agent: x:y\r\nHost: {host}\r\n\r\n"));
        for right in ["127.0.0.1:9587", "127.0.0.1", "localhost:80", "[::1]:9587", "[::1]", "192.0.2.1:1"] {
            assert!(host(right), "{right}");
        }
        for wrong in ["example.org", "example.org:9587", "127.0.0.1.example.org:9587", "a1"] {
            assert!(!host(wrong), "{wrong}");
        }
        assert!(is_address("GET / HTTP/1.0\r\n\r\n"), "a browser always sends a Host header");
    }

    /// However many idle connections there are, they do not shut out other clients.
    #[test]
    fn silent_clients_shut_nobody_out() {
        let listener = listen("web", ([127, 0, 0, 1], 0).into()).unwrap();
        let at = listener.local_addr().unwrap();
        serve("web", listener, |path| Response::ok("text/plain", format!("{path} is here"))).unwrap();
        let mut silent: Vec<TcpStream> = (0..3 * MOST).map(|_| TcpStream::connect(at).unwrap()).collect();
        let mut asks = TcpStream::connect(at).unwrap();
        asks.write_all(b"GET /page?name=value HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let mut text = String::new();
        asks.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("\r\n/page is here"), "{text}");
        // The newest connection was not closed to make room, so it can still send its request.
        let newest = silent.last_mut().unwrap();
        newest.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        text.clear();
        newest.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("here"), "{text}");
    }
}
