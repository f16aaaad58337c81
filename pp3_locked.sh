#!/usr/bin/env bash
# Runs PP3 on a shared machine under a lock: one campaign at a time, ended whole, resumed at will. docs/operations.md.
set -euo pipefail

usage() {
    cat >&2 <<'EOF'
usage: pp3_locked.sh [--detach] [--qualify | --oracle | --probe] [arguments of that pp3 command]
  --qualify   a campaign in pieces; --resume goes on with the last one
  --oracle    the bridge to the exact rational law
  --probe     the times of the kernels beside the launch floor and other samplers; what runs without a mode
  --detach    in the tmux session PP3, which outlives this terminal
environment: PP3_LOCK PP3_SCRATCH PP3_PYTHON PP3_CPUS PP3_NICE PP3_THREADS PP3_POWER_W PP3_GRACE_S
EOF
}

fail() { # code, message
    printf 'pp3_locked: %s\n' "$2" >&2
    exit "$1"
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
detach='' mode='' inside=''
while [ $# -gt 0 ]; do
    case $1 in
        --detach) detach=1 ;;
        --inside-tmux) inside=1 ;;
        --qualify | --oracle | --probe)
            mode=${1#--}
            shift
            break
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            usage
            fail 2 "unknown argument $1; the mode comes before what goes through to pp3"
            ;;
    esac
    shift
done
mode=${mode:-probe}

command -v flock >/dev/null || fail 69 'flock is missing: install util-linux'
[ -z "$detach" ] || command -v tmux >/dev/null || fail 69 'tmux is missing, and --detach needs it: install tmux'

export PP3_LOCK=${PP3_LOCK:-/tmp/pp3.lock}
export PP3_SCRATCH=${PP3_SCRATCH:-${TMPDIR:-/tmp}/pp3-$(id -u)}
export PP3_PYTHON=${PP3_PYTHON:-$root/.venv/bin/python}
export PP3_CPUS=${PP3_CPUS:-} PP3_NICE=${PP3_NICE:-19} PP3_THREADS=${PP3_THREADS:-8}
export PP3_POWER_W=${PP3_POWER_W:-} PP3_GRACE_S=${PP3_GRACE_S:-10}

case $PP3_SCRATCH in /*) ;; *) fail 2 "PP3_SCRATCH=$PP3_SCRATCH: give an absolute path" ;; esac
[[ $PP3_THREADS =~ ^[1-9][0-9]{0,3}$ ]] || fail 2 "PP3_THREADS=$PP3_THREADS: give a number from 1 to 9999"
[[ $PP3_NICE =~ ^(1?[0-9])$ ]] || fail 2 "PP3_NICE=$PP3_NICE: give a number from 0 to 19"
[[ $PP3_GRACE_S =~ ^[0-9]{1,4}$ ]] || fail 2 "PP3_GRACE_S=$PP3_GRACE_S: give whole seconds"
[ -z "$PP3_CPUS" ] || command -v taskset >/dev/null || fail 69 'taskset is missing, and PP3_CPUS needs it: install util-linux'
[ -x "$PP3_PYTHON" ] || fail 69 "$PP3_PYTHON is no Python: run make, or set PP3_PYTHON"

(umask 077 && mkdir -p -- "$PP3_SCRATCH") 2>/dev/null || fail 74 "PP3_SCRATCH=$PP3_SCRATCH cannot be made"
[ -O "$PP3_SCRATCH" ] || fail 74 "PP3_SCRATCH=$PP3_SCRATCH belongs to somebody else"
run=$PP3_SCRATCH/run-$$
(umask 077 && mkdir -- "$run" "$run/tmp") 2>/dev/null || fail 74 "PP3_SCRATCH=$PP3_SCRATCH cannot be written: is it full, or read-only?"
trap 'rm -rf -- "$run"' EXIT
printf '%4096s' '' 2>/dev/null >"$run/tmp/room" || fail 74 "PP3_SCRATCH=$PP3_SCRATCH has no room: free some space"
if [ ! -e "$PP3_LOCK" ]; then
    (umask 0 && : >>"$PP3_LOCK") 2>/dev/null || fail 74 "PP3_LOCK=$PP3_LOCK cannot be made: give a file in a folder that can be written"
fi
(: <"$PP3_LOCK") 2>/dev/null || fail 74 "PP3_LOCK=$PP3_LOCK cannot be read: it belongs to $(stat -c %U -- "$PP3_LOCK" 2>/dev/null || printf somebody), whose  chmod a+r  makes it everybody's; a lock of your own would not keep the two of you apart"
exec {lock}<"$PP3_LOCK" # flock opens it again by this descriptor: by its name, the kernel may refuse a file of another user's
lock=/proc/self/fd/$lock

if [ -n "$detach" ]; then
    export TMUX_TMPDIR=$PP3_SCRATCH/tmux
    unset TMUX
    mkdir -p -- "$TMUX_TMPDIR"
    started=$PP3_SCRATCH/detach.lock # of two at once, the second looks when the first has its session
    exec {turn}>"$started"
    flock -w 60 "$turn" || fail 75 'another --detach is under way'
    session=(tmux -f /dev/null -L pp3)
    ! "${session[@]}" has-session -t =PP3 2>/dev/null || fail 75 "the session PP3 runs already; look at it with  TMUX_TMPDIR=$TMUX_TMPDIR tmux -L pp3 attach -t PP3"
    taken=0
    flock -n -E 75 -o "$lock" true || taken=$?
    [ "$taken" -eq 0 ] || fail "$taken" "the lock $PP3_LOCK is held: another run is under way"
    rm -f -- "$PP3_SCRATCH/detached.exit"
    touch -- "$started"
    "${session[@]}" new-session -d -s PP3 -c "$PWD" -- "$root/pp3_locked.sh" --inside-tmux "--$mode" "$@" {turn}>&- || fail 69 'tmux did not start (its last words are above)'
    for ((look = 0; look < 100; look++)); do # until it is at work, or was refused, as by a GPU in use
        [ ! "$PP3_SCRATCH/wrapper.json" -nt "$started" ] || break
        if [ -e "$PP3_SCRATCH/detached.exit" ]; then
            read -r status <"$PP3_SCRATCH/detached.exit"
            [ "$status" -ne 0 ] || break
            sleep 0.1 # for the last line of the log
            tail -n 1 -- "$PP3_SCRATCH/detached.log" >&2
            fail "$status" "it was refused at once; all it said is in $PP3_SCRATCH/detached.log"
        fi
        sleep 0.1
    done
    printf 'started in the tmux session PP3\n'
    printf '  watch   TMUX_TMPDIR=%q tmux -L pp3 attach -t PP3\n' "$TMUX_TMPDIR"
    printf '  status  pp3 status %q\n' "$PP3_SCRATCH"
    printf '  output  %s\n' "$PP3_SCRATCH/detached.log"
    exit 0
fi

if [ -n "$inside" ]; then
    exec > >(trap '' HUP INT TERM && exec tee -a -- "$PP3_SCRATCH/detached.log") 2>&1
    printf 'pp3_locked: --%s, begun %s; a line a minute here, more by  pp3 status %q\n' "$mode" "$(date -u +%FT%TZ)" "$PP3_SCRATCH"
fi

export TMPDIR=$run/tmp PYTHONPYCACHEPREFIX=$run/bytecode
export XDG_CACHE_HOME=$PP3_SCRATCH/cache TRITON_CACHE_DIR=$PP3_SCRATCH/cache/triton CUDA_CACHE_PATH=$PP3_SCRATCH/cache/cuda
export TORCHINDUCTOR_CACHE_DIR=$PP3_SCRATCH/cache/inductor MPLCONFIGDIR=$PP3_SCRATCH/cache/matplotlib
export OMP_NUM_THREADS=$PP3_THREADS MKL_NUM_THREADS=$PP3_THREADS OPENBLAS_NUM_THREADS=$PP3_THREADS
export PYTHONPATH=$root PYTHONSAFEPATH=1 CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER:-PCI_BUS_ID} # as the driver's tools count

command=(nice -n "$PP3_NICE")
[ -z "$PP3_CPUS" ] || command+=(taskset -c "$PP3_CPUS")
command+=("$PP3_PYTHON" -m pp3.harness.operations.supervise "$$" "$run" "$mode" "$@")

# In a group of its own (-m), so that a signal to this script is passed on once; flock is deaf to it and waits.
set -m
(
    trap '' INT TERM HUP
    exec flock -n -E 75 -o "$lock" "${command[@]}"
) </dev/null &
job=$!
set +m
passed=''
for signal in INT TERM HUP; do
    # shellcheck disable=SC2064 # the name of the signal is that of now
    trap "passed=1; : >\"\$run/stop\" || true; kill -$signal -- -$job 2>/dev/null || true" "$signal"
done
status=0 again=''
while :; do
    last=0
    wait "$job" || last=$?
    if [ -z "$again" ] || [ "$last" -ne 127 ]; then # 127: the wait before, which a signal broke off, has taken it already
        status=$last
    fi
    [ -n "$passed" ] || break
    passed='' again=1
done
case $status in 66 | 73) status=74 ;; esac # flock cannot open the lock
[ "$status" -ne 75 ] || printf 'pp3_locked: the lock %s is held: another run is under way\n' "$PP3_LOCK" >&2
if [ -n "$inside" ]; then # whole or not at all; a full disk changes no exit code
    { printf '%s\n' "$status" >"$PP3_SCRATCH/detached.new" && mv -f -- "$PP3_SCRATCH/detached.new" "$PP3_SCRATCH/detached.exit"; } || true
fi
exit "$status"
