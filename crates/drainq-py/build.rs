//! Has the linker send the C functions of `src/guarded_calls.rs` through the door, and tells the sources by
//! `Py_GIL_DISABLED` that the interpreter has no GIL.
//!
//! Only glibc ends a thread by unwinding its stack; elsewhere there is no door to go through.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    pyo3_build_config::use_pyo3_cfgs();
    println!("cargo:rerun-if-changed=src/guarded_calls.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        let is_abi3 = var("CARGO_FEATURE_ABI3").is_ok();
        for function in functions(include_str!("src/guarded_calls.rs"), is_abi3) {
            // Some linkers wrap only what they have met, so the name is given to them first.
            println!("cargo:rustc-link-arg-cdylib=-Wl,--undefined={function},--wrap={function}");
        }
    }
}

/// The names in the lists of the door: the first, and the second where the module is for one version of CPython.
fn functions(door: &str, is_abi3: bool) -> impl Iterator<Item = &str> {
    let mut lists = door.split("\nthrough_the_door! {").skip(1);
    let (all, one_version) =
        (lists.next().expect("guarded_calls.rs holds the list"), lists.next().expect("and a second one"));
    let lines = all.lines().chain(one_version.lines().filter(move |_| !is_abi3));
    lines.filter_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next())
}
