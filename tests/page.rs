//! Compares the documents with what tests measure.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Lets only one test at a time change a page.
static CHANGE: Mutex<()> = Mutex::new(());

/// Fails if the text between `<!-- test: NAME -->` and `<!-- end of test -->` in docs/PAGE is not `text`.
/// With `UPDATE_DOCS=1`, writes `text` there. If `text` ends with a newline, it is a table.
pub(crate) fn check(page: &str, name: &str, text: &str) {
    let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
    let text = if text.ends_with('\n') { format!("\n\n{text}\n") } else { text.to_owned() };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let document = std::fs::read_to_string(&file).unwrap();
    let (begin, end) = (format!("<!-- test: {name} -->"), "<!-- end of test -->");
    let parts = document.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?)));
    let (before, (there, after)) = parts.unwrap_or_else(|| panic!("docs/{page} has no `{begin}`...`{end}`"));
    if there != text {
        let update = std::env::var_os("UPDATE_DOCS").is_some();
        assert!(
            update,
            "docs/{page} has `{there}`, but the test measures `{text}`; update it with UPDATE_DOCS=1"
        );
        std::fs::write(&file, format!("{before}{begin}{text}{end}{after}")).unwrap();
    }
}
