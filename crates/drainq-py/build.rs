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
        let cfgs = pyo3_build_config::get().build_script_outputs();
        let has = |name: &str| cfgs.iter().any(|line| line.ends_with(&format!("={name}")));
        let is_for_one_version = !has("Py_LIMITED_API");
        let lists = [true, is_for_one_version, is_for_one_version && has("Py_GIL_DISABLED")];
        for function in functions(include_str!("src/guarded_calls.rs"), lists) {
            // Some linkers wrap only what they have met, so the name is given to them first.
            println!("cargo:rustc-link-arg-cdylib=-Wl,--undefined={function},--wrap={function}");
        }
    }
}

/// The names in those lists of the door that the module needs: of every module, of one for a single version of CPython,
/// and of such a one without a GIL.
fn functions(door: &str, needed: [bool; 3]) -> impl Iterator<Item = &str> {
    let lists = door.split("\nthrough_the_door! {").skip(1).zip(needed);
    let lines = lists.filter(|(_, needed)| *needed).flat_map(|(list, _)| list.lines());
    lines.filter_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next())
}
