#!/usr/bin/env bash
# Measures the benefit of priorities: after how many seeds a sweep notices mutations with them, and without them in the same scenario.
#
#   ci/priorities.sh SEEDS RANGES < PAIRS     e.g. printf 'counter-priorities counter-decides-once\n' | ci/priorities.sh 200 5
#
# For each line `SCENARIO MUTATION`, where SCENARIO is the name of a scenario or variant, runs RANGES disjoint ranges of SEEDS seeds each, with the
# unchanged scenario and without its faults of the kind `priorities`. Prints a Markdown row for each pair: the median of the first failing seeds,
# counted from 1, and the total number of failing seeds. Needs jq.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=$1 ranges=$2
sim=${IPAM_SIM:-target/release/ipam-sim}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Prints the scenario without priorities: tables are separated by empty lines.
without() {
    awk 'BEGIN { RS = ""; ORS = "\n\n" } !/kind = "priorities"/ { gsub(/also = \["priorities"\]/, "also = []"); print }' "$1"
}

# Prints for each range the first failing seed, counted from 1, or nothing, and the number of failing seeds.
sweep() {
    local file=$1 name=$2 mutation=$3 range
    for ((range = 0; range < ranges; range++)); do
        "$sim" run "$file" --variant "$name" --mutation "$mutation" --from $((range * 100000)) --seeds "$seeds" --no-shrink --out "$out/plans" --force \
            --format json >"$out/result.json" 2>"$out/error" || [ $? -le 3 ]
        jq -r --argjson from $((range * 100000)) '.scenarios[0] | "\([.claims[]?.seed_ranges[0].first - $from + 1] | min // "") \(.violated)"' \
            "$out/result.json"
    done
}

# Prints the median of the first column, where an empty field counts as more than all seeds, and the sum of the second one.
judge() {
    awk -v seeds="$seeds" 'NF == 1 { $2 = $1; $1 = seeds + 1 } { print }' | sort -n |
        awk -v seeds="$seeds" '{ first[NR] = $1; sum += $2 } END { m = first[int((NR + 1) / 2)]; print (m > seeds ? "> " seeds : m) " | " sum }'
}

echo "| mutation | scenario | uniform: median | seeds of $((seeds * ranges)) | priorities: median | seeds of $((seeds * ranges)) |"
echo "|---|---|---|---|---|---|"
while read -r name mutation; do
    file=$(grep -l "^name = \"$name\"" scenarios/*/*.toml)
    without "$file" >"$out/uniform.toml"
    echo "| \`$mutation\` | $name | $(sweep "$out/uniform.toml" "$name" "$mutation" | judge) | $(sweep "$file" "$name" "$mutation" | judge) |"
done
