#!/usr/bin/env bash
# What needs no torch, on the newest Python of this machine: make test-newest-python. $1: a folder to work in.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
work=$1
ours=$("$root/.venv/bin/python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
newest=''
for minor in 15 14 13 12; do
    for python in "python3.$minor" "$HOME/.pyenv/versions/3.$minor".*/bin/python; do
        if "$python" -c "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
            newest=$python
            break 2
        fi
    done
done
if [ -z "$newest" ] || [ "3.$minor" = "$ours" ]; then
    echo "skipped: test-newest-python: no Python newer than $ours is on this machine"
    exit 0
fi
"$newest" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$root/constraints.txt" \
    numpy scipy msgspec click rich pytest hypothesis rfc8785 jsonschema
export PYTHONPATH=$root CUDA_VISIBLE_DEVICES='' PYTHONDONTWRITEBYTECODE=1
pp3=("$work/venv/bin/python" -P -m pp3.harness.cli)
"$work/venv/bin/python" --version
cd "$work"
"${pp3[@]}" --version
"${pp3[@]}" explain fit >/dev/null
"${pp3[@]}" conform "$root/tests/vectors/propose.json" "$root/tests/vectors/verify.json"
"${pp3[@]}" oracle --device cpu --out "$work/out" | sed -n 1p
"${pp3[@]}" verify "$work"/out/*.json | tail -n 1
cd "$root"
"$work/venv/bin/python" -P -m pytest -q -p no:cacheprovider --basetemp="$work/tests" \
    tests/test_canonical.py tests/test_weights.py
