#!/usr/bin/env bash
# Measure on one GPU what docs/performance.md and the README's table show, one command after the other, from a checkout.
# measure.sh OUT [STEP...]    a new folder in OUT for each step; all steps unless some are named
# measure.sh --list           the steps, in order
# Exit 1 if a step did not end with 0: its log, OUT/STEP.log, says why. A step whose folder is there already is refused.
# PP3 is the command (default .venv/bin/pp3); IMAGE a folder of make image VERSION=0.33.0, OVERLAY what pp3 prepare made of it.
# The probe's FlashInfer is compiled on first use: let it run alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
read -ra pp3 <<<"${PP3:-.venv/bin/pp3}"
image=${IMAGE:-.image/0.33.0}
pace=(qualify --require-gpu --campaign docs/examples/pace.toml --requests)
wire=(qualify --require-gpu --path wire --campaign docs/examples/wire.toml --proxy)
every=(qualify oracle exhaustive probe wire-thread wire-process overlay vllm survey pace-1e6 pace-1e7 pace-1e8 pace-1e9)
steps=("${every[@]}")

arguments() { # of a step, into $given
    case $1 in
        qualify) given=(qualify --require-gpu) ;;
        oracle) given=(oracle --device cuda) ;;
        exhaustive) given=(exhaustive --device cuda) ;;
        probe) given=(probe) ;;
        wire-thread) given=("${wire[@]}" thread) ;;
        wire-process) given=("${wire[@]}" process) ;;
        overlay) given=(qualify --require-gpu --sampler overlay --image "$image" --overlay "${OVERLAY:-overlay}" --requests 4000) ;;
        vllm) given=(qualify --require-gpu --sampler vllm-v2-0.33.0 --requests 5263158 --jobs 4) ;;
        survey) given=(survey --device cuda --jobs 11) ;;
        pace-1e6) given=("${pace[@]}" 2e5) ;;
        pace-1e7) given=("${pace[@]}" 2e6) ;;
        pace-1e8) given=("${pace[@]}" 2e7) ;;
        pace-1e9) given=("${pace[@]}" 2e8) ;;
        *) echo "measure.sh: $1 is no step; there are: ${every[*]}" >&2; exit 2 ;;
    esac
}

if [ "${1:-}" = --list ]; then
    for step in "${steps[@]}"; do arguments "$step"; echo "$step: pp3 ${given[*]}"; done
    exit
fi
[ $# -gt 0 ] || { echo "measure.sh: give a folder, then steps; --list names them" >&2; exit 2; }
out=$1
shift
[ $# -eq 0 ] || steps=("$@")
for step in "${steps[@]}"; do arguments "$step"; done # all are known before any is begun
mkdir -p "$out"
worst=0
for step in "${steps[@]}"; do
    arguments "$step"
    [ ! -e "$out/$step" ] || { echo "measure.sh: $out/$step is there already; give another folder" >&2; exit 2; }
    began=$SECONDS code=0
    "${pp3[@]}" "${given[@]}" --out "$out/$step" >"$out/$step.log" 2>&1 || code=$?
    echo "$step exit $code $((SECONDS - began)) s"
    [ "$code" -eq 0 ] || worst=1
done
exit "$worst"
