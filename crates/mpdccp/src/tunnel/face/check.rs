//! `tunnel check` lists all errors of a configuration file without starting a tunnel.

use crate::error::Error;
use crate::tunnel::face::control;
use mpdccp_tunnel::config::{Remark, Review};
use serde_json::{Value, json};
use std::path::Path;

/// Prints the errors and warnings.
///
/// # Errors
/// If the file has errors.
pub(crate) fn run(file: &Path, as_json: bool) -> Result<(), Error> {
    let review = control::check(file)?;
    let shown = file.display();
    if as_json {
        println!("{}", as_value(file, &review));
    } else {
        let kinds = [("error", &review.errors), ("warning", &review.warnings)];
        for (kind, remark) in kinds.into_iter().flat_map(|(kind, all)| all.iter().map(move |r| (kind, r))) {
            println!("{shown}: {kind}: {remark}");
        }
    }
    let (errors, warnings) =
        (counted(review.errors.len(), "error"), counted(review.warnings.len(), "warning"));
    match review.errors.is_empty() {
        true if as_json => Ok(()),
        true => {
            println!("{shown}: no errors, {warnings}");
            Ok(())
        }
        false => Err(Error::usage(format!("{shown}: {errors}, {warnings}"))),
    }
}

fn counted(n: usize, what: &str) -> String {
    match n {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

fn as_value(file: &Path, review: &Review) -> Value {
    let all = |remarks: &[Remark]| -> Vec<Value> {
        let one = |r: &Remark| json!({ "line": r.line, "key": r.key, "message": r.message });
        remarks.iter().map(one).collect()
    };
    json!({ "file": file, "errors": all(&review.errors), "warnings": all(&review.warnings) })
}
