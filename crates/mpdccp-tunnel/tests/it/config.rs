//! Invalid and suspicious configurations, listed in `config.toml`. Each case lists all expected remarks.

use mpdccp_tunnel::config::Config;
use serde::Deserialize;

#[derive(Deserialize)]
struct Cases {
    client: Role,
    server: Role,
}

#[derive(Deserialize)]
struct Role {
    /// The basic file that the cases change.
    file: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    /// Replacements in the basic file: old and new text.
    replace: Vec<[String; 2]>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[test]
fn all_that_is_wrong_is_said_with_line_and_key_and_how_to_fix_it() {
    let Cases { client, server } = toml::from_str(include_str!("config.toml")).unwrap();
    assert!(client.case.len() + server.case.len() >= 40);
    let mut wrong = Vec::new();
    let cases = [client, server]
        .into_iter()
        .flat_map(|role| role.case.into_iter().map(move |case| (case, role.file.clone())));
    for (number, (case, mut text)) in (1..).zip(cases) {
        for [from, to] in &case.replace {
            assert!(text.contains(from.as_str()), "case {number}: no {from}");
            text = text.replacen(from.as_str(), to, 1);
        }
        let review = Config::review(&text, 1);
        let lines = |remarks: &[mpdccp_tunnel::config::Remark]| -> Vec<String> {
            remarks.iter().map(ToString::to_string).collect()
        };
        let (errors, warnings) = (lines(&review.errors), lines(&review.warnings));
        assert_eq!(review.result("f".as_ref()).is_ok(), errors.is_empty(), "case {number}");
        if (&errors, &warnings) != (&case.errors, &case.warnings) {
            wrong.push(format!(
                "case {number}: {:?}\nerrors = {errors:#?}\nwarnings = {warnings:#?}",
                case.replace
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// If an error suggests a key, the parser must accept that key.
#[test]
fn a_key_of_another_section_is_told_where_it_belongs() {
    let text = "role = \"client\"\nremote = \"192.0.2.1\"\n[[peer]]\nscheduler = \"rr\"\n";
    let errors = Config::review(text, 1).errors;
    let said = |words: &str| errors.iter().any(|error| error.to_string().contains(words));
    assert!(
        said("`remote`; it belongs in [[peer.path]]") && said("`scheduler`; it belongs in the top"),
        "{errors:?}"
    );
}
