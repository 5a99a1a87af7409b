//! Parses scripts. Each file is a test, and each line a step.

use crate::expr::Expr;
use crate::option;
use crate::packet::{self, FIELDS};
use crate::pattern::Pattern;
use dccp_wire::PacketType;
use include_dir::{Dir, include_dir};
use std::time::Duration;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scripts");

/// A test.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name of the file below `scripts/`, without the extension.
    pub name: String,
    /// The rule that the test checks, taken from the file's first comment.
    pub title: String,
    /// The RFC and the section of each rule that the test checks.
    pub rules: Vec<(u32, String)>,
    /// The features that the target must have for this test.
    pub needs: Vec<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// A script line and its action.
#[derive(Clone, Debug)]
pub struct Step {
    /// The file and the line, for errors.
    pub place: String,
    /// The text of the line.
    pub text: String,
    /// The action.
    pub action: Action,
}

/// The action of a step. A pattern applies to the packets of the current flow, or to those of all flows.
#[derive(Clone, Debug)]
pub enum Action {
    /// Switches to a flow (a separate connection), creating it if it does not exist yet.
    Flow(String),
    /// Gives a value a name.
    Let(String, Expr),
    /// Sends packets.
    Send(Send),
    /// Waits for a packet that matches, and removes it from the received packets.
    Expect(Match, Option<Duration>, Option<String>),
    /// Fails if a matching packet arrives within this time.
    Quiet(Match, Duration),
    /// Fails if a matching packet arrives at any later time.
    Never(Match),
    /// From now on, fails if a packet matches the first pattern but not the second.
    Every(Match, Match),
    /// From now on, immediately answers each packet that matches.
    Whenever(Match, Send),
    /// Waits.
    Wait(Duration),
    /// Fails unless a value matches.
    Check(Expr, Pattern),
    /// Skips sequence numbers, as if the packets with these numbers were lost.
    Skip(Expr),
    /// Sets the next sequence number.
    Start(Expr),
    /// Discards all received packets that no step has consumed.
    Forget,
    /// From now on, accepts the feature values that the target requests.
    Negotiate,
}

/// Packets to send.
#[derive(Clone, Debug)]
pub struct Send {
    /// Type of the packets.
    pub ptype: PacketType,
    /// Header fields that differ from their defaults.
    pub fields: Vec<(String, Expr)>,
    /// Options in order.
    pub options: Vec<(String, Vec<Expr>)>,
    /// The name by which the script refers to the last packet.
    pub name: Option<String>,
    /// The number of packets to send.
    pub times: u64,
}

/// A pattern for packets.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// The packet types that match; if empty, any type matches.
    pub types: Vec<PacketType>,
    /// Patterns for header fields.
    pub fields: Vec<(String, Pattern)>,
    /// Patterns for options, each with three parts: whether the option must be present, its name, and its
    /// fields.
    pub options: Vec<(bool, String, Vec<Pattern>)>,
    /// Whether the pattern applies to all flows.
    pub anywhere: bool,
}

/// Returns all scripts of the suite, sorted by name. The scripts in `lib/` are left out, because other
/// scripts include them.
pub fn embedded() -> Result<Vec<Script>, String> {
    let mut found = Vec::new();
    for dir in FILES.dirs().filter(|d| d.path().to_string_lossy() != "lib") {
        for file in dir.files() {
            let name = file.path().with_extension("").to_string_lossy().into_owned();
            found.push(Script::parse(&name, file.contents_utf8().unwrap_or_default())?);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

impl Script {
    /// Parses a script. An error contains the line number.
    pub fn parse(name: &str, text: &str) -> Result<Script, String> {
        let comment = |line: &str| line.strip_prefix('#').map(|t| t.trim().to_string());
        let title: Vec<String> = text.lines().map_while(comment).collect();
        let mut script = Script {
            name: name.into(),
            title: title.join(" "),
            rules: Vec::new(),
            needs: Vec::new(),
            steps: Vec::new(),
        };
        script.read(name, text)?;
        match script {
            Script { rules, .. } if rules.is_empty() => {
                Err(format!("{name}: missing line `rfc NUMBER SECTION` for the rule that it checks"))
            }
            Script { title, .. } if title.is_empty() => {
                Err(format!("{name}: the first line must be a comment that states the rule"))
            }
            script => Ok(script),
        }
    }

    fn read(&mut self, name: &str, text: &str) -> Result<(), String> {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            self.line(&place, line.trim())
                .map_err(|e| if e.starts_with("lib/") { e } else { format!("{place}: {e}") })?;
        }
        Ok(())
    }

    fn line(&mut self, place: &str, line: &str) -> Result<(), String> {
        let words = words(line)?;
        let Some((verb, rest)) = words.split_first().filter(|(verb, _)| !verb.starts_with('#')) else {
            return Ok(());
        };
        let action = match (*verb, rest) {
            ("rfc", [number, sections @ ..]) if !sections.is_empty() => {
                let number = number.parse().map_err(|_| format!("invalid RFC number `{number}`"))?;
                self.rules.extend(sections.iter().map(|s| (number, s.trim_end_matches(',').to_string())));
                return Ok(());
            }
            ("needs", tags) if !tags.is_empty() => {
                self.needs.extend(tags.iter().map(ToString::to_string));
                return Ok(());
            }
            ("use", [library]) => {
                let path = format!("lib/{library}");
                let file = FILES
                    .get_file(format!("{path}.dccp"))
                    .ok_or(format!("unknown library script {path}.dccp"))?;
                return self.read(&path, file.contents_utf8().unwrap_or_default());
            }
            ("flow", [name]) => Action::Flow(name.to_string()),
            ("let", [name, value]) => Action::Let(name.to_string(), Expr::parse(value)?),
            ("send", rest) => Action::Send(send(rest)?),
            ("expect", rest) => {
                let (rest, name) = named(rest);
                let (rest, within) = timed(rest, "within")?;
                Action::Expect(matching(rest)?, within, name)
            }
            ("quiet", rest) => {
                let (rest, time) = timed(rest, "for")?;
                Action::Quiet(matching(rest)?, time.unwrap_or(Duration::from_millis(400)))
            }
            ("never", rest) => Action::Never(matching(rest)?),
            ("every", rest) => {
                let at = rest
                    .iter()
                    .position(|w| *w == "has")
                    .ok_or("missing `has`; expected `every PACKETS has FIELDS`")?;
                Action::Every(matching(&rest[..at])?, conditions(&rest[at + 1..], Match::default())?)
            }
            ("whenever", rest) => {
                let at = rest
                    .iter()
                    .position(|w| *w == "send")
                    .ok_or("missing `send`; expected `whenever PACKETS send ...`")?;
                Action::Whenever(matching(&rest[..at])?, send(&rest[at + 1..])?)
            }
            ("wait", [time]) => Action::Wait(duration(time)?),
            ("check", [value, pattern]) => Action::Check(Expr::parse(value)?, Pattern::parse(pattern)?),
            ("skip", [count]) => Action::Skip(Expr::parse(count)?),
            ("start", [number]) => Action::Start(Expr::parse(number)?),
            ("forget", []) => Action::Forget,
            ("negotiate", []) => Action::Negotiate,
            _ => return Err(format!("unknown step `{line}`; see docs/conformance.md")),
        };
        self.steps.push(Step { place: place.into(), text: line.into(), action });
        Ok(())
    }
}

/// Splits a line into words, treating text in `<...>` or quotes as one word.
fn words(line: &str) -> Result<Vec<&str>, String> {
    let (mut found, mut from, mut quoted, mut depth) = (Vec::new(), None, false, 0);
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '<' if !quoted => depth += 1,
            '>' if !quoted => depth -= 1,
            _ => {}
        }
        if c.is_whitespace() && !quoted && depth == 0 {
            found.extend(from.take().map(|from| &line[from..at]));
        } else {
            from.get_or_insert(at);
        }
    }
    found.extend(from.map(|from| &line[from..]));
    let comment = found.first().is_some_and(|w| w.starts_with('#'));
    if (quoted || depth != 0) && !comment {
        Err("a quote, `<` or `>` has no counterpart".into())
    } else {
        Ok(found)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("invalid time `{text}`; examples: 400ms, 3s");
    let number = |digits: &str| digits.parse().map_err(|_| error());
    match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => number(digits).map(Duration::from_millis),
        (_, Some(digits)) => number(digits).map(Duration::from_secs),
        _ => Err(error()),
    }
}

/// Splits off `as NAME` from the end of the words.
fn named<'a, 'b>(words: &'a [&'b str]) -> (&'a [&'b str], Option<String>) {
    match words {
        [rest @ .., "as", name] => (rest, Some(name.to_string())),
        _ => (words, None),
    }
}

/// Splits off `WORD TIME` from the end of the words.
fn timed<'a, 'b>(words: &'a [&'b str], word: &str) -> Result<(&'a [&'b str], Option<Duration>), String> {
    match words {
        [rest @ .., w, time] if *w == word => Ok((rest, Some(duration(time)?))),
        _ => Ok((words, None)),
    }
}

fn known_field(name: &str, more: &[&str]) -> Result<(), String> {
    let known = FIELDS.contains(&name) || more.contains(&name);
    if known {
        Ok(())
    } else {
        Err(format!("unknown field `{name}`; expected one of: {}", FIELDS.join(", ")))
    }
}

fn send(words: &[&str]) -> Result<Send, String> {
    let (words, name) = named(words);
    let (kind, rest) = words.split_first().ok_or("missing packet type")?;
    let ptype = packet::ptype(kind).ok_or(format!("unknown packet type `{kind}`"))?;
    let mut send = Send { ptype, fields: Vec::new(), options: Vec::new(), name, times: 1 };
    for word in rest {
        if let Some(inner) = word.strip_prefix('<') {
            let inner = self::words(inner.trim_end_matches('>'))?;
            let (name, arguments) = inner.split_first().ok_or("`<>` contains no option")?;
            option::check(name, arguments.len())?;
            let arguments = arguments.iter().map(|a| Expr::parse(a)).collect::<Result<_, _>>()?;
            send.options.push((name.to_string(), arguments));
        } else if word.starts_with('"') {
            send.fields.push(("data".into(), Expr::parse(word)?));
        } else if let Some((field, value)) = word.split_once('=') {
            known_field(field, &["offset", "type", "cut", "badsum"])?;
            send.fields.push((field.into(), Expr::parse(value)?));
        } else if let Some(times) = word.strip_prefix('x').and_then(|n| n.parse().ok()) {
            send.times = times;
        } else {
            return Err(format!("`{word}` is not a field, an option or data of a packet"));
        }
    }
    Ok(send)
}

fn matching(words: &[&str]) -> Result<Match, String> {
    let anywhere = words.first() == Some(&"anywhere");
    let words = &words[usize::from(anywhere)..];
    let (kinds, rest) = words.split_first().ok_or("missing packet type; `*` matches any type")?;
    let named = |kind: &str| packet::ptype(kind).ok_or(format!("unknown packet type `{kind}`"));
    let types =
        if *kinds == "*" { Vec::new() } else { kinds.split('|').map(named).collect::<Result<_, _>>()? };
    conditions(rest, Match { types, anywhere, ..Match::default() })
}

fn conditions(words: &[&str], mut found: Match) -> Result<Match, String> {
    for word in words {
        let (positive, text) = word.strip_prefix('!').map_or((true, *word), |rest| (false, rest));
        if let Some(inner) = text.strip_prefix('<') {
            let inner = self::words(inner.trim_end_matches('>'))?;
            let (name, arguments) = inner.split_first().ok_or("`<>` contains no option")?;
            option::check(name, arguments.len())?;
            let patterns = arguments.iter().map(|a| Pattern::parse(a)).collect::<Result<_, _>>()?;
            found.options.push((positive, name.to_string(), patterns));
        } else if text.starts_with('"') {
            found.fields.push(("data".into(), Pattern::parse(word)?));
        } else if let Some((field, pattern)) = word.split_once('=') {
            known_field(field, &[])?;
            found.fields.push((field.into(), Pattern::parse(pattern)?));
        } else {
            return Err(format!("unknown condition `{word}`"));
        }
    }
    Ok(found)
}
