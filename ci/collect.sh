#!/usr/bin/env bash
# Waits for the shards of a sweep (`ci/shard.sh`), has their results merged, and exits with the verdict.
#
#   ci/collect.sh results 8 7200 ipam-sim merge --junit results/sweep.xml
#
# The shards are results/1.json to results/8.json. A shard is finished when its result exists, or when it failed permanently: a failure by a signal
# (130, 143) does not count, because an evicted shard may be started again. The script always ends: after 7200 seconds with the existing
# results. The names of the results are the last arguments of the command. If a shard failed or is missing, success becomes exit code 4.
set -euo pipefail
usage="usage: ci/collect.sh RESULTS SHARDS SECONDS COMMAND [ARGUMENT]..."
if [ $# -lt 4 ] || ! [[ $2 =~ ^[1-9][0-9]*$ && $3 =~ ^[0-9]+$ ]]; then
    echo "$usage" >&2
    exit 2
fi
results=$1 shards=$2 seconds=$3
shift 3
# Fails early: shards that cannot write cannot report that either.
mkdir -p "$results"
if ! [ -w "$results" ]; then
    echo "ci/collect.sh: $results cannot be written" >&2
    exit 2
fi
# As PID 1 of a container, the script does not end by a signal that it does not handle.
trap 'exit 143' TERM INT HUP
SECONDS=0
while true; do
    done=() waiting=() failed=()
    for ((k = 1; k <= shards; k++)); do
        result=$results/$k.json
        if [ -s "$result.failed" ]; then
            code=$(cat "$result.failed")
            failed+=("$k ($code)")
            if [ "$code" -ge 128 ] && [ "$SECONDS" -lt "$seconds" ]; then waiting+=("$k"); fi
        elif ! [ -s "$result" ]; then
            waiting+=("$k")
        fi
        if [ -s "$result" ]; then done+=("$result"); fi
    done
    if [ ${#waiting[@]} -eq 0 ] || [ "$SECONDS" -ge "$seconds" ]; then break; fi
    sleep 1 &
    wait $! || true
done
if [ ${#failed[@]} -gt 0 ]; then echo "ci/collect.sh: shards that failed, with their exit codes: ${failed[*]}" >&2; fi
if [ ${#waiting[@]} -gt 0 ]; then echo "ci/collect.sh: shards that did not end within $seconds s: ${waiting[*]}" >&2; fi
if [ ${#done[@]} -eq 0 ]; then
    echo "ci/collect.sh: no shard has a result" >&2
    exit 4
fi
code=0
"$@" "${done[@]}" || code=$?
if [ "$code" -eq 0 ] && [ $((${#failed[@]} + ${#waiting[@]})) -gt 0 ]; then code=4; fi
exit "$code"
