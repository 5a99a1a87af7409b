//! Generates mpdccp.toml(5), which describes the keys of the tunnel's configuration file, from the tables of
//! the online reference.

use std::fmt::Write;

const TUNNEL: &str = include_str!("../../../../docs/tunnel.md");
const SETTINGS: &str = include_str!("../../../../docs/keys.md");

/// Returns the page in roff.
pub(super) fn page() -> String {
    let mut out = String::from(
        ".TH mpdccp.toml 5\n.SH NAME\nmpdccp.toml \\- configuration file of an mpdccp tunnel\n.SH DESCRIPTION\n\
         The file is TOML. \\fBmpdccp tunnel check\\fR lists the errors of a file, and \\fBmpdccp tunnel init\\fR writes a file for each end. \
         Unknown keys are errors.\n",
    );
    let keys = section(TUNNEL, "Keys of the file");
    let (file, peer) = keys.split_once("\n`[[peer]]`").unwrap_or((keys, ""));
    let (peer, path) = peer.split_once("\n### Paths\n").unwrap_or((peer, ""));
    for (title, text) in [("THE FILE", file), ("[[peer]]", peer), ("[[peer.path]]", path)] {
        let _ = write!(out, ".SH {title}\n{}", entries(text, 3));
    }
    let _ = write!(
        out,
        ".SH SETTINGS OF SESSIONS\nThese keys also belong at the top of the file.\n{}",
        entries(SETTINGS, 6)
    );
    out += ".SH SEE ALSO\nmpdccp-tunnel(1), /usr/share/doc/mpdccp/tunnel.md, /usr/share/doc/mpdccp/schedulers.md\n";
    out
}

fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let rest = text.split_once(&format!("\n## {title}\n")).map_or("", |(_, rest)| rest);
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// Formats the rows of all tables in `text`. The output starts with the key's description, taken from column
/// `meaning`; the allowed values and the default follow.
fn entries(text: &str, meaning: usize) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [key, values, default, ..] = cells[..] else { continue };
        let Some(meaning) = cells.get(meaning) else { continue };
        let _ = writeln!(out, ".TP\n\\fB{}\\fR", plain(key));
        let given =
            [("Values", values), ("Default", default)].into_iter().filter(|(_, text)| !text.is_empty());
        let given: Vec<String> = given.map(|(name, text)| format!("{name}: {}.", plain(text))).collect();
        let _ = writeln!(out, "{}\n{}", plain(meaning), given.join(" "));
    }
    out
}

/// Removes Markdown markup and escapes roff.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    // Replace `[words](address)` by `words`.
    while let Some((before, link)) = rest.split_once('[') {
        let found = link.split_once("](").and_then(|(words, tail)| Some((words, tail.split_once(')')?.1)));
        match found.filter(|(words, _)| !words.contains(['[', ']'])) {
            Some((words, after)) => {
                out += before;
                out += words;
                rest = after;
            }
            None => {
                out += before;
                out.push('[');
                rest = link;
            }
        }
    }
    out += rest;
    let out = out.replace('\\', "\\e").replace(['`', '*'], "").replace('-', "\\-");
    // In roff, a line that begins with a dot or an apostrophe is a request.
    if out.starts_with(['.', '\'']) { format!("\\&{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_the_file_are_on_the_page() {
        let page = page();
        for key in [
            "role",
            "default_route",
            "bypass",
            "hook",
            "public_key",
            "receive_rate",
            "quota_day",
            "scheduler",
            "keepalive",
        ] {
            assert!(page.contains(&format!(".TP\n\\fB{key}\\fR\n")), "{key}");
        }
        assert!(!page.contains('`') && !page.contains("]("));
        let order = ["THE FILE", "[[peer]]", "[[peer.path]]", "SETTINGS"]
            .map(|title| page.find(&format!(".SH {title}")));
        assert!(order.is_sorted() && order.iter().all(Option::is_some));
    }

    #[test]
    fn marks_are_taken_away() {
        assert_eq!(plain("`a-b`, see [below](#x) and [[peer]]"), "a\\-b, see below and [[peer]]");
        assert_eq!(plain(".x \\ y"), "\\&.x \\e y");
    }
}
