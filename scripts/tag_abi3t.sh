#!/bin/sh
# Gives a wheel of the feature abi3t the tag abi3t alone; a CPython with a GIL would take it, which is slower there.
set -eu
python3 -m pip install --quiet wheel
python3 -m wheel tags --remove --abi-tag abi3t "$@"
