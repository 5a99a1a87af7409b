//! Passes the commit to the program, and whether the sources differ from it. Both are unknown outside a git
//! checkout.

use std::path::Path;
use std::process::Command;

/// Files, other than the crates' sources, that influence results.
const SOURCES: [&str; 3] = ["scenarios", "Cargo.toml", "Cargo.lock"];

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Files that influence the runs of the judge's references.
const REFERENCES: [&str; 14] = [
    "crates/mpdccp-units/src",
    "crates/aqm/src",
    "crates/mpdccp-linkem/src",
    "crates/linkem-net/src",
    "crates/mpdccp-lab/src/backend.rs",
    "crates/mpdccp-lab/src/estimate.rs",
    "crates/mpdccp-lab/src/judge/figures.rs",
    "crates/mpdccp-lab/src/links.rs",
    "crates/mpdccp-lab/src/record.rs",
    "crates/mpdccp-lab/src/scenario",
    "crates/mpdccp-lab/src/seed.rs",
    "crates/mpdccp-lab/src/sim",
    "crates/mpdccp-lab/src/summary.rs",
    "crates/dccp-cc/src",
];
/// Files and directories in `REFERENCES` to leave out, because the judge's reference congestion controls do
/// not use them. `bbr1` is left out for another reason: variants also use it, so the judge tests its
/// behaviour instead of its sources.
const NOT_REFERENCES: [&str; 6] = [
    "dccp-cc/src/bbr1",
    "dccp-cc/src/bbr3",
    "dccp-cc/src/jitter.rs",
    "dccp-cc/src/losses.rs",
    "dccp-cc/src/prague.rs",
    "dccp-cc/src/tfrc",
];

/// Adds the names and contents of all files at or below `path` to an FNV-1a hash. It skips the paths that end
/// with one of `without`, and comments on lines of their own, which do not affect results.
fn hash_of(path: &Path, without: &[&str], hash: &mut u64) {
    if without.iter().any(|end| path.ends_with(end)) {
        return;
    }
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if path.is_dir() {
        let mut paths: Vec<_> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect();
        paths.sort();
        paths.iter().for_each(|path| hash_of(path, without, hash));
        return;
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    for byte in std::iter::once(&*name).chain(code).flat_map(str::bytes) {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let root = Path::new("../..");
    let cc = root.join("crates/dccp-cc/src");
    let mut hash = FNV;
    hash_of(&cc, &[], &mut hash);
    println!("cargo::rustc-env=MPDCCP_CC_SOURCES={hash}");
    println!("cargo::rerun-if-changed={}", cc.display());
    let mut hash = FNV;
    for place in REFERENCES.map(|place| root.join(place)) {
        hash_of(&place, &NOT_REFERENCES, &mut hash);
        println!("cargo::rerun-if-changed={}", place.display());
    }
    println!("cargo::rustc-env=MPDCCP_REFERENCES={hash}");
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let of_crates = crates.flat_map(|dir| [dir.path().join("src"), dir.path().join("Cargo.toml")]);
    let places: Vec<_> =
        SOURCES.iter().map(|s| root.join(s)).chain(of_crates).filter(|p| p.exists()).collect();
    for place in &places {
        println!("cargo::rerun-if-changed={}", place.display());
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(places.iter().filter_map(|p| p.to_str()));
    // If git cannot tell whether the sources changed, assume that they did.
    let dirty = git(&status).is_none_or(|changed| !changed.is_empty());
    println!("cargo::rustc-env=MPDCCP_COMMIT={commit}");
    println!("cargo::rustc-env=MPDCCP_DIRTY={dirty}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_s_jitter_counts_but_not_that_of_the_variants() {
        let dir = tempfile::tempdir().unwrap();
        let hash = |path: &str, text: &str| {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            let mut hash = FNV;
            hash_of(&file, &NOT_REFERENCES, &mut hash);
            hash
        };
        let [variants, link] = ["dccp-cc/src/jitter.rs", "mpdccp-linkem/src/jitter.rs"];
        assert_eq!(hash(variants, "1"), hash(variants, "2"));
        assert_ne!(hash(link, "1"), hash(link, "2"));
    }
}
