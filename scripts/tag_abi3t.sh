#!/bin/sh
# Gives a wheel of the feature abi3t that tag alone, so that no CPython with a GIL takes the wheel: it is slower there.
set -eu
python3 -m pip install --quiet wheel
python3 -m wheel tags --remove --abi-tag abi3t "$@"
