//! Scripts that come or go are a change of the crate.

fn main() {
    println!("cargo::rerun-if-changed=scripts");
}
