//! Rebuilds the crate when scripts are added or removed.

fn main() {
    println!("cargo::rerun-if-changed=scripts");
}
