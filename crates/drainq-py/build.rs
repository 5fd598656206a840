//! Makes the linker redirect the calls of the C functions in `src/guarded_calls.rs` to wrappers (the door), and sets
//! `Py_GIL_DISABLED` for the sources if the interpreter has no GIL.
//!
//! Only glibc ends a thread by unwinding its stack. With another C library no call is redirected.

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
            // Some linkers wrap only symbols that they know already, so `--undefined` names the symbol first.
            println!("cargo:rustc-link-arg-cdylib=-Wl,--undefined={function},--wrap={function}");
        }
    }
}

/// Returns the names in the lists that the module needs. The first list is for every module, the second for a module
/// for a single version of CPython, the third for such a module without a GIL.
fn functions(door: &str, needed: [bool; 3]) -> impl Iterator<Item = &str> {
    let lists = door.split("\nthrough_the_door! {").skip(1).zip(needed);
    let lines = lists.filter(|(_, needed)| *needed).flat_map(|(list, _)| list.lines());
    lines.filter_map(|line| line.trim_start().strip_prefix("fn ")?.split('(').next())
}
