#!/bin/sh
# Runs random programs on the batch queue in a CPython 3.13 without a GIL, under ThreadSanitizer. Fails at a report on drainq.
#
#   scripts/tsan_python.sh [SECONDS]      for each of the two rooms of the soak; 300 if not given
#
# The interpreter is built under ThreadSanitizer once, from a source that is fetched here. The module is built for each
# run. Both need gcc with its libtsan, of version 12 or later.
set -eu

scripts="$(cd "$(dirname "$0")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/drainq/free-threaded"
source="$cache/tsan"
python="$source/python"

. "$scripts/debian_apt.sh"

build_interpreter() {
    prepare_apt "$cache" trixie deb-src
    rm -rf "$source"
    mkdir -p "$source"
    cd "$source"
    apt-get --quiet=2 --download-only source python3.13 >&2
    tar --extract --strip-components 1 --file python3.13_*.orig.tar.xz
    say "building CPython under ThreadSanitizer in $source: the log is tsan.log beside it"
    { ./configure --disable-gil --with-thread-sanitizer && make -j "$(nproc)"; } > "$cache/tsan.log" 2>&1
}

[ -x "$python" ] || (build_interpreter)
"$scripts/free_threaded.sh" > /dev/null # copies the sources, with a PyO3 for 3.13

cd "$scripts/.."
built="$PWD/target/tsan-python"
# The locks are parking_lot's then: ThreadSanitizer does not see through those of the standard library.
PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON="$cache/python/bin/python3.13t" RUSTC_BOOTSTRAP=1 \
    RUSTFLAGS='-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg drainq_mutants' cargo build --quiet \
    --manifest-path target/free-threaded/source/Cargo.toml --profile model --target x86_64-unknown-linux-gnu \
    --target-dir "$built" --package drainq-py --no-default-features
rm -rf "$built/package" "$built/report".*
mkdir -p "$built/package"
cp -R python/drainq "$built/package"
rm -f "$built/package/drainq/"_native*.so
cp "$built/x86_64-unknown-linux-gnu/model/lib_native.so" "$built/package/drainq/_native.cpython-313t-x86_64-linux-gnu.so"

# rustc calls these functions of a newer runtime than gcc's. They call functions that gcc's runtime intercepts.
cc -O1 -fno-builtin -shared -fPIC -x c - -o "$built/calls.so" <<'CALLS'
#include <string.h>
void *__tsan_memcpy(void *to, const void *from, size_t n) { return memcpy(to, from, n); }
void *__tsan_memmove(void *to, const void *from, size_t n) { return memmove(to, from, n); }
void *__tsan_memset(void *to, int byte, size_t n) { return memset(to, byte, n); }
CALLS
cat "$source/Tools/tsan/suppressions_free_threading.txt" scripts/tsan.supp > "$built/suppressions"

for room in batch pools; do
    TSAN_OPTIONS="suppressions=$built/suppressions:log_path=$built/report:exitcode=0:history_size=4" \
        PYTHONPATH="$built/package" LD_PRELOAD="$built/calls.so" \
        "$python" -m tests.soak.room "$room" --seed 1 --rounds 1000000 --seconds "${1:-300}" > "$built/$room.log" || {
        say "$room failed: $built/$room.log"
        exit 1
    }
    tail -n 1 "$built/$room.log"
done
for report in "$built/report".*; do
    if grep -q -s _native "$report"; then
        say "ThreadSanitizer reports drainq: $report"
        exit 1
    fi
done
