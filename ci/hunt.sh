#!/usr/bin/env bash
# Measures the benefit of guidance: after how many runs plain sweeps and hunts notice mutations, and how many core seconds that takes.
#
#   ci/hunt.sh RUNS SEEDS < PAIRS     e.g. printf 'scenarios/chaos/byom-small.toml byom-unfenced-vms\n' | ci/hunt.sh 400 "0 10000 20000"
#
# Runs for each line `SCENARIO MUTATION` and each first seed of SEEDS a sweep of RUNS seeds, a hunt of RUNS runs, and an unguided hunt, each on one
# worker; hunts end with the first find. Prints a Markdown row for each pair, and the totals: finds per core second. Needs jq.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=$1 seeds=$2
sim=${IPAM_SIM:-target/release/ipam-sim}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Runs a command; writes its JSON to result.json, and adds the core seconds that it took to the file of its kind.
timed() {
    local kind=$1 TIMEFORMAT=%U+%S
    shift
    { time "$@" >"$out/result.json" 2>"$out/error" || [ $? -le 3 ]; } 2>>"$out/$kind.seconds"
}

# Prints the first run that violates something, counted from 1; nothing if none does.
search() {
    local scenario=$1 mutation=$2 seed=$3
    shift 3
    timed "${1:-guided}" "$sim" hunt "$scenario" --mutation "$mutation" --seed "$seed" --runs "$runs" --jobs 1 --first --no-shrink --out "$out/plans" \
        --format json ${1:+--unguided}
    jq '[.scenarios[0].hunt.finds[]?.run + 1] | min // empty' "$out/result.json"
}

# A sweep runs to its end: only the share of its seconds up to the first failing seed counts.
sweep() {
    local scenario=$1 mutation=$2 seed=$3 first
    timed whole "$sim" run "$scenario" --mutation "$mutation" --from "$seed" --seeds "$runs" --jobs 1 --no-shrink --no-plans --format json
    first=$(jq --argjson from "$seed" '[.scenarios[0].claims[]?.seed_ranges[0].first - $from + 1] | min // empty' "$out/result.json")
    echo "scale=3; ($(tail -n 1 "$out/whole.seconds")) * ${first:-$runs} / $runs" | bc >>"$out/sweep.seconds"
    echo "$first"
}

# The median number of runs; no find counts as more than all runs.
median() { sed "s/^\$/$((runs + 1))/" | sort -n | awk -v runs="$runs" '{ all[NR] = $1 } END { m = all[int((NR + 1) / 2)]; print (m + 0 > runs + 0 ? "> " runs : m) }'; }

echo "| mutation | scenario | sweep | hunt | not guided |"
echo "|---|---|---|---|---|"
while read -r scenario mutation; do
    for kind in sweep guided unguided; do : >"$out/$kind.now"; done
    for seed in $seeds; do
        sweep "$scenario" "$mutation" "$seed" | grep . >>"$out/sweep.now" || echo >>"$out/sweep.now"
        search "$scenario" "$mutation" "$seed" | grep . >>"$out/guided.now" || echo >>"$out/guided.now"
        search "$scenario" "$mutation" "$seed" unguided | grep . >>"$out/unguided.now" || echo >>"$out/unguided.now"
    done
    row="| \`$mutation\` | $(basename "$scenario" .toml) |"
    for kind in sweep guided unguided; do
        cat "$out/$kind.now" >>"$out/$kind.all"
        row="$row $(median <"$out/$kind.now") ($(grep -c . "$out/$kind.now" || true)) |"
    done
    echo "$row"
done
row="| finds, seconds of a core, finds a second | |"
for kind in sweep guided unguided; do
    finds=$(grep -c . "$out/$kind.all" || true)
    seconds=$(echo "scale=1; ($(paste -sd+ "$out/$kind.seconds")) / 1" | bc)
    row="$row $finds, $seconds s, $(echo "scale=3; $finds / $seconds" | bc) |"
done
echo "$row"
