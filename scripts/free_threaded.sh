#!/bin/sh
# Makes a CPython 3.13 without a GIL and the native module for it; prints the path of the interpreter.
#
#   scripts/free_threaded.sh [PYTHON]     the module alone, for this free-threaded interpreter
#
# The interpreter is built once, without its profile-guided optimisation, from the source that Debian keeps, into the
# cache folder: 400 MB, five to twenty minutes. It needs a C compiler and the headers of OpenSSL, libffi, zlib and
# SQLite. The module lies beside the other one in python/drainq, where only this interpreter takes it.
#
# The project's PyO3 supports free-threaded interpreters from 3.14 on, and Debian has no source that builds such an
# interpreter. The last PyO3 for 3.13 is 0.28.3. With a 3.13, a copy of the sources is built with that PyO3, without the
# feature abi3t, which it lacks.
set -eu

scripts="$(cd "$(dirname "$0")" && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/drainq/free-threaded"
suite=trixie
python="${1:-$cache/python/bin/python3.13t}"

. "$scripts/debian_apt.sh"

build_interpreter() {
    prepare_apt "$cache" "$suite" deb-src
    rm -rf "$cache/source" "$cache/python"
    mkdir -p "$cache/source"
    cd "$cache/source"
    apt-get --quiet=2 --download-only source python3.13 >&2
    tar --extract --strip-components 1 --file python3.13_*.orig.tar.xz # without Debian's changes
    say "building CPython without a GIL in $cache: the log is build.log"
    {
        ./configure --disable-gil --prefix "$cache/python"
        make -j "$(nproc)"
        make install
    } > "$cache/build.log" 2>&1 || { tail "$cache/build.log" >&2; exit 1; }
    rm -rf "$cache/source"
}

command -v "$python" > /dev/null || [ $# -gt 0 ] || (build_interpreter)

cd "$scripts/.."
copy=target/free-threaded
rm -rf "$copy/source"
mkdir -p "$copy/source"
cp -Rp Cargo.toml Cargo.lock crates "$copy/source"
if "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 14))'; then
    sed -i.bak -E 's/^(pyo3.*)"0\.[0-9.]+"/\1"=0.28.3"/; /^abi3t = /d' "$copy/source/crates/drainq-py/Cargo.toml"
fi
PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON="$python" cargo build --quiet --release --manifest-path "$copy/source/Cargo.toml" \
    --target-dir "$copy" --package drainq-py --no-default-features >&2
module="_native$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
cp "$copy/release/lib_native.so" "python/drainq/$module.new"
mv "python/drainq/$module.new" "python/drainq/$module" # a running test keeps its own
echo "$python"
