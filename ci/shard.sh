#!/usr/bin/env bash
# Runs a shard of a sweep. `ipam-sim merge` gives the verdict of the whole.
#
#   ci/shard.sh results/1.json target/release/ipam-sim gate --shard 1/4 --format json
#
# The command's output goes to the file, which appears only when complete. A verdict is a result, good or bad: held (0), violated (1), a
# liveness claim violated (3), vacuous (4), nondeterministic (5), incomplete (6), and this script exits with 0. Anything else is a failure of
# the shard, and this script's exit code: wrong usage (2), a bug of the harness (70), a signal (130, 143), a missing program (127). A verdict
# without a result is a failure, too. The code of a failure is also in RESULT.json.failed, for `ci/collect.sh`, which waits for the shard.
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: ci/shard.sh RESULT.json COMMAND [ARGUMENT]..." >&2
    exit 2
fi
result=$1
shift
mkdir -p "$(dirname "$result")"
# The leftovers of an earlier run are not the result of this one.
rm -f "$result" "$result.failed"
part=$result.part
"$@" > "$part" &
command=$!
# As the first process of a container, or of a batch job, this one gets the signals. It passes them on, and the command prints the verdict so far.
trap 'kill -TERM "$command" 2> /dev/null || true' TERM INT HUP
while true; do
    code=0
    wait "$command" || code=$?
    # A signal interrupts `wait` before the command ends.
    kill -0 "$command" 2> /dev/null || break
done
# If both happened at once, `wait` reported the signal; the shell still knows the exit code of the command.
if [ "$code" -gt 128 ]; then
    known=0
    wait "$command" 2> /dev/null || known=$?
    if [ "$known" -ne 127 ]; then code=$known; fi
fi
fail() {
    echo "ci/shard.sh: $2" >&2
    echo "$1" > "$result.failed"
}
case $code in
    0 | 1 | 3 | 4 | 5 | 6)
        if [ -s "$part" ]; then
            echo "ci/shard.sh: exit code $code is a result, in $result" >&2
            code=0
        else
            fail 70 "$1 exited with $code, but printed no result"
            code=70
        fi
        ;;
    *) fail "$code" "exit code $code is no verdict: the shard failed" ;;
esac
# Last, so that the mark of a failure exists before the result does.
if [ -s "$part" ]; then
    mv "$part" "$result"
else
    rm -f "$part"
fi
exit "$code"
