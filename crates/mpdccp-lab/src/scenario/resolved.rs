use toml::{Table, Value};

use super::{Cell, Scenario, Variant};
use crate::code;

/// Keys that have no influence on a single run.
const ABOUT: [&str; 8] = ["title", "about", "runs", "headline", "reference", "aim", "sweep", "variant"];

impl Scenario {
    /// Returns the file's name for use in errors. Paths of other files are relative to this file's directory.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Returns text from which [`Scenario::parse`] produces this scenario again, provided the files it names
    /// exist.
    pub(crate) fn source_text(&self) -> String {
        self.document.to_string()
    }

    /// Returns the parsed file with sorted keys, and hashes of the files that it names.
    pub fn document_text(&self) -> String {
        self.written(self.document.clone())
    }

    /// Returns the hash of [`document_text`](Self::document_text).
    pub fn document_hash(&self) -> String {
        code::hash(&self.document_text())
    }

    /// Returns the inputs of `variant` in `cell` as text: the file without other variants and cells, and
    /// without keys that do not influence the run. If two runs have the same text, seed and program, they are
    /// the same run.
    pub fn resolved(&self, variant: &Variant, cell: &Cell) -> String {
        let mut table = self.document.clone();
        for key in ABOUT {
            table.remove(key);
        }
        let called = |array: &str, key: &str, name: &str| -> Option<Value> {
            let items = self.document.get(array)?.as_array()?;
            items.iter().find(|item| item.get(key).and_then(Value::as_str) == Some(name)).cloned()
        };
        table.remove("cell");
        table.extend(called("cell", "name", &cell.name).map(|v| ("cell".to_owned(), v)));
        table.extend(called("variant", "label", variant.label.as_ref()).map(|v| ("variant".to_owned(), v)));
        self.written(table)
    }

    fn written(&self, mut table: Table) -> String {
        if !self.files.is_empty() {
            let files = self.files.iter().map(|(name, hash)| (name.clone(), Value::from(hash.clone())));
            table.insert("files-read".to_owned(), Value::Table(files.collect()));
        }
        table.to_string()
    }
}
