#!/bin/sh
# Fuzzes sequences of operations on the batch queue against plain lists, with AddressSanitizer.
#
#   scripts/fuzz.sh [SECONDS]     60 if not given; what it learns stays in target/fuzz/corpus
#
# These are the flags that cargo-fuzz sets. The sanitizer needs RUSTC_BOOTSTRAP on a stable compiler.
set -eu
cd "$(dirname "$0")/.."
mkdir -p target/fuzz/corpus
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
cargo run --manifest-path fuzz/Cargo.toml --release --target x86_64-unknown-linux-gnu --target-dir target/fuzz -- \
    target/fuzz/corpus -max_total_time="${1:-60}" -max_len=4096 -artifact_prefix=target/fuzz/ -print_final_stats=1
