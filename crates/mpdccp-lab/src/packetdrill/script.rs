//! Parses scripts into timed events.

use core::time::Duration;

use super::packet::Packet;

/// Default tolerance of times, as in packetdrill.
const TOLERANCE: Duration = Duration::from_millis(4);
/// Calls that have no effect here. They set up the socket or read from it; the model's application always
/// reads immediately.
const IGNORED: [&str; 11] = [
    "socket",
    "bind",
    "listen",
    "accept",
    "connect",
    "fcntl",
    "getsockopt",
    "setsockopt",
    "read",
    "recv",
    "poll",
];

/// A script in packetdrill's language.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) events: Vec<Event>,
    pub(super) tolerance: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    /// Line in the file.
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) when: When,
    pub(super) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Any,
    /// Earliest and latest time since the start of the script.
    At {
        first: Duration,
        last: Duration,
    },
    /// Earliest and latest time since the previous event.
    After {
        first: Duration,
        last: Duration,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Packet(Packet),
    Congestion(String),
    Write(u64),
    /// Assertions about the state of the connection.
    Code(String),
    Nothing,
}

impl Script {
    /// Parses a script. The text of an error begins with the line number.
    pub fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script { events: Vec::new(), tolerance: TOLERANCE };
        let mut scanner = Scanner { rest: text, line: 1 };
        loop {
            scanner.skip();
            let line = scanner.line;
            if scanner.rest.is_empty() {
                return Ok(script);
            }
            script.statement(&mut scanner).map_err(|why| format!("{line}: {why}"))?;
        }
    }

    fn statement(&mut self, scanner: &mut Scanner<'_>) -> Result<(), String> {
        let line = scanner.line;
        if scanner.rest.starts_with('`') {
            return scanner.enclosed("`", "`").map(drop);
        }
        if scanner.rest.starts_with("--") {
            return self.option(scanner.line());
        }
        let word = scanner.take(scanner.rest.find(char::is_whitespace).unwrap_or(scanner.rest.len()));
        let when = when(word)
            .ok_or_else(|| format!("invalid time `{word}`; examples: `+.1`, `0.5`, `+.1~+.2`, `*`"))?;
        scanner.skip();
        let (text, action) = if scanner.rest.starts_with("%{") {
            let code = scanner.enclosed("%{", "}%")?;
            (code.trim().to_owned(), Action::Code(code.to_owned()))
        } else if scanner.rest.starts_with('`') {
            (scanner.enclosed("`", "`")?.to_owned(), Action::Nothing)
        } else {
            let text = scanner.lines();
            let action = if text.starts_with(['<', '>']) {
                Action::Packet(Packet::parse(&text)?)
            } else {
                call(&text)?
            };
            (text, action)
        };
        self.events.push(Event { line, text, when, action });
        Ok(())
    }

    /// Parses a line with a packetdrill option. Only the tolerance has an effect; the other options concern
    /// the test machine.
    fn option(&mut self, line: &str) -> Result<(), String> {
        let Some(value) = line.strip_prefix("--tolerance_usecs=") else { return Ok(()) };
        let us = value
            .trim()
            .parse()
            .map_err(|_| format!("invalid tolerance `{}`; expected microseconds", value.trim()))?;
        self.tolerance = Duration::from_micros(us);
        Ok(())
    }
}

fn call(text: &str) -> Result<Action, String> {
    let (name, arguments) =
        text.split_once('(').ok_or_else(|| format!("expected a packet or a call, not `{text}`"))?;
    match name.trim() {
        "write" | "send" => {
            let end = arguments.rfind(')').unwrap_or(arguments.len());
            let bytes = arguments[..end].split(',').nth(2).and_then(|n| n.trim().parse().ok());
            bytes
                .map(Action::Write)
                .ok_or_else(|| format!("`{}`: expected a number of bytes as the third argument", name.trim()))
        }
        "setsockopt" if arguments.contains("TCP_CONGESTION") => {
            let cc = arguments.split('"').nth(1).ok_or("TCP_CONGESTION: expected a name in quotes")?;
            Ok(Action::Congestion(cc.to_owned()))
        }
        name if IGNORED.contains(&name) => Ok(Action::Nothing),
        name => Err(format!("unsupported call `{name}`; supported: write, send, {}", IGNORED.join(", "))),
    }
}

fn when(word: &str) -> Option<When> {
    if word == "*" {
        return Some(When::Any);
    }
    let time = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let (relative, word) = word.strip_prefix('+').map_or((false, word), |rest| (true, rest));
    let (first, last) = match word.split_once('~') {
        Some((first, last)) => (time(first)?, time(last.strip_prefix('+').unwrap_or(last))?),
        // A blocking call (`START...END`) takes effect at its start.
        None => time(word.split_once("...").map_or(word, |(start, _)| start)).map(|at| (at, at))?,
    };
    Some(if relative { When::After { first, last } } else { When::At { first, last } })
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    /// Takes the rest of the line and returns it.
    fn line(&mut self) -> &'a str {
        self.take(self.rest.find('\n').unwrap_or(self.rest.len()))
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            self.take(self.rest.len() - self.rest.trim_start().len());
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.line();
            } else if self.rest.starts_with("/*") {
                self.take(self.rest.find("*/").map_or(self.rest.len(), |end| end + 2));
            } else {
                return;
            }
        }
    }

    fn enclosed(&mut self, open: &str, close: &str) -> Result<&'a str, String> {
        self.take(open.len());
        let end = self.rest.find(close).ok_or_else(|| format!("missing `{close}`"))?;
        let inside = self.take(end);
        self.take(close.len());
        Ok(inside)
    }

    /// Takes a line and its continuation lines, which are indented and do not begin with a time, and returns
    /// their text.
    fn lines(&mut self) -> String {
        let code = |line: &str| {
            let line = line.split("//").next().unwrap_or_default();
            line.split("/*").next().unwrap_or_default().trim().to_owned()
        };
        let mut text = code(self.line());
        while self.rest.starts_with("\n ") || self.rest.starts_with("\n\t") {
            let next = self.rest[1..].trim_start();
            if next.is_empty() || next.starts_with(|c: char| c.is_ascii_digit() || "+*`#-/".contains(c)) {
                break;
            }
            self.take(1);
            text = format!("{text} {}", code(self.line()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let ms = Duration::from_millis;
        assert_eq!(when("*"), Some(When::Any));
        assert_eq!(when("0.5"), Some(When::At { first: ms(500), last: ms(500) }));
        assert_eq!(when("+.1"), Some(When::After { first: ms(100), last: ms(100) }));
        assert_eq!(when("+.1~+.2"), Some(When::After { first: ms(100), last: ms(200) }));
        assert_eq!(when("0...0.2"), Some(When::At { first: ms(0), last: ms(0) }));
        for wrong in ["", "+", "-1", "x", "+.1~", "+.1~x", "nan"] {
            assert_eq!(when(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn statements_with_comments_options_and_continuations() {
        let script = Script::parse(
            "// Title\n--tolerance_usecs=9000\n`sysctl -q a=1\nsysctl -q b=2`\n0 socket(..., SOCK_STREAM, 0) = 3 // ours\n\
             +0 setsockopt(3, IPPROTO_TCP, TCP_CONGESTION, \"reno\", 4) = 0\n/* two\nlines */ +.1 < . 1:1(0) ack 1 win 9\n  \
             <nop,nop>\n  +0 write(4, ..., 700) = 700\n+0 %{ assert a == 1\nassert b == 2 }%\n",
        )
        .unwrap();
        assert_eq!(script.tolerance, Duration::from_micros(9_000));
        assert_eq!(script.events.iter().map(|e| e.line).collect::<Vec<_>>(), [5, 6, 8, 10, 11]);
        assert_eq!(script.events[2].text, "< . 1:1(0) ack 1 win 9 <nop,nop>");
        let kinds: Vec<String> = script.events.iter().map(|e| format!("{:?}", e.action)).collect();
        assert_eq!((kinds[1].as_str(), kinds[3].as_str()), ("Congestion(\"reno\")", "Write(700)"));
        assert_eq!(kinds[4], "Code(\" assert a == 1\\nassert b == 2 \")");
    }

    #[test]
    fn errors_begin_with_the_line() {
        for (text, error) in [
            ("\nx < . 1:1(0)", "2: invalid time `x`"),
            ("0 socket() = 3\n+0 shutdown(4, SHUT_WR) = 0", "2: unsupported call `shutdown`"),
            ("+0 something", "1: expected a packet or a call"),
            ("+0 write(4, ..., lots) = 1", "1: `write`: expected a number of bytes"),
            ("\n\n+0 %{ assert x", "3: missing `}%`"),
            ("--tolerance_usecs=much", "1: invalid tolerance `much`"),
            ("+0 < . 1:2(3) ack 1", "1: `1:2(3)`"),
        ] {
            let found = Script::parse(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
