//! Makes cargo build the crate again when scripts are added or removed.

fn main() {
    println!("cargo::rerun-if-changed=scripts");
}
