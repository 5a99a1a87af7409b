//! Checks docs/keys.md, the reference of the session settings, which is generated from the declaration of the
//! settings.

use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{Ccid, Named, Settings};
use std::process::Command;

/// Generates docs/keys.md.
fn page() -> String {
    let mut page = String::from(
        "# Settings of a session

Every key below can be set in the tunnel's file ([tunnel.md](tunnel.md)) and in the `[tunnel]` table of a scenario ([scenarios.md](scenarios.md)).
Each end has its own settings: to change both directions, set a key in both ends' files. Some keys are also flags of `mpdccp perf`
([perf.md](perf.md)) and methods of the library's `Options` ([library.md](library.md)), whose defaults may differ. *Reload* says whether reloading
the tunnel's file changes running sessions (*now*) or only sessions that begin later (*later*).

| key | values | default | perf | library | reload | meaning |
|---|---|---|---|---|---|---|
",
    );
    for setting in Settings::ALL {
        let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let [flag, method] = setting.elsewhere.map(code);
        page += &format!(
            "| `{}` | {} | {} | {flag} | {method} | {} | {} |\n",
            setting.name,
            setting.values,
            code(setting.default),
            if setting.live { "now" } else { "later" },
            setting.help.trim(),
        );
    }
    page
}

#[test]
fn the_page_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, page()).unwrap();
    }
    let update = "UPDATE_DOCS=1 cargo test -p mpdccp --test program keys_page";
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        page(),
        "docs/keys.md is stale; update it with `{update}`"
    );
}

/// Parses a configuration that has only this key.
fn read(key: &str, value: &str) -> Settings {
    let file: toml::Table = toml::from_str(&format!("{key} = {value}")).unwrap();
    let mut settings = Settings::default();
    settings.set(key, file[key].clone()).unwrap_or_else(|e| panic!("{key} = {value}: {e}"));
    settings
}

#[test]
fn values_and_defaults_are_what_files_may_say() {
    for setting in Settings::ALL {
        for value in setting.values.split('`').skip(1).step_by(2) {
            read(setting.name, value);
        }
        if !setting.default.is_empty() {
            let set = read(setting.name, setting.default);
            assert_eq!(format!("{set:?}"), format!("{:?}", Settings::default()), "{}", setting.name);
        }
    }
    let values = |key| Settings::ALL.iter().find(|one| one.name == key).unwrap().values;
    assert!(SchedulerKind::all().all(|kind| values("scheduler").contains(&format!("`\"{}\"`", kind.name()))));
    assert!(Ccid::known().all(|ccid| values("ccid").contains(&format!("`{ccid}`"))));
}

#[test]
fn flags_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_mpdccp")).args(["perf", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for [flag, _] in Settings::ALL.iter().map(|setting| setting.elsewhere) {
        assert!(help.contains(flag), "{flag}: {help}");
    }
}
