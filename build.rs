//! Links a debug build for Linux at a fixed address. The tests start the program tens of thousands of
//! times, and each start would first apply 300,000 relocations, which takes a third of its time. A
//! release is linked as usual, so that its address is random.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name, value: &str| var(name).is_ok_and(|found| found == value);
    let is_static = var("CARGO_CFG_TARGET_FEATURE")
        .is_ok_and(|found| found.split(',').any(|one| one == "crt-static"));
    if !is_static
        && is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
