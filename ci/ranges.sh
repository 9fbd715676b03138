#!/usr/bin/env bash
# Runs every scenario that must hold on ten ranges of seeds that nobody looked at when it was written: from 100000, 200000, ... each with as many
# seeds as the scenario declares. A claim that is seen by luck alone makes one of them vacuous (4). Ends with a table, and with the worst exit code.
#
#   ci/ranges.sh                      # all ten: a quarter of an hour on two cores
#   RANGES="3 4" ci/ranges.sh         # two of them, as in one of five jobs
#   ci/ranges.sh --jobs 8             # further flags go to `ipam-sim run`
#
# The output of each range is kept in target/ipam-sim/ranges (or $RANGES_OUT). Ctrl-C still prints the table of what ran.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${IPAM_SIM:-target/release/ipam-sim}
ranges=${RANGES:-1 2 3 4 5 6 7 8 9 10}
out=${RANGES_OUT:-target/ipam-sim/ranges}
for k in $ranges; do
    if ! [[ $k =~ ^[1-9][0-9]{0,2}$ ]]; then
        echo "RANGES holds '$k', which is no number from 1 to 999" >&2
        exit 2
    fi
done
if ! [ -x "$program" ]; then
    echo "there is no program $program: build it with cargo build --release, or name one in IPAM_SIM" >&2
    exit 2
fi
mkdir -p "$out"

# A line of the table of `run` begins with its verdict; the range is named for verdicts other than held.
table() {
    awk -v ranges="$ranges" '
        FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\.txt$/, "", file); over = 0 }
        # The table ends with the first empty line; its head has no verdict.
        NF == 0 { over = 1 }
        over || !/^(ok|FAIL|VACUOUS|NOT RUN|NONDET|BUG|open)/ { next }
        {
            sub(/^NOT RUN/, "NOT-RUN")
            if (!($2 in seen)) { order[++count] = $2; seen[$2] = 1 }
            seeds = $3; gsub(/,/, "", seeds); total[$2] += seeds
            if ($1 == "ok") held[$2]++
            else wrong[$2] = wrong[$2] " " $1 " from " file
        }
        END {
            printf "%-34s %9s %8s  %s\n", "scenario", "held in", "seeds", "not held"
            for (i = 1; i <= count; i++) { name = order[i]; printf "%-34s %9s %8d %s\n", name, held[name] + 0 " of " split(ranges, all, " "), total[name], wrong[name] }
        }' "$@"
}

# Prints the worst of two exit codes, by their precedence (docs/ci.md).
worst() {
    for code in 143 130 70 5 2 1 3 4 6; do
        if [ "$1" -eq "$code" ] || [ "$2" -eq "$code" ]; then
            echo "$code"
            return
        fi
    done
    echo $(($1 > $2 ? $1 : $2))
}

result=0
files=()
for k in $ranges; do
    code=0
    file="$out/${k}00000.txt"
    "$program" run scenarios/smoke scenarios/chaos --from "${k}00000" --no-shrink --color never "$@" > "$file" || code=$?
    files+=("$file")
    if [ "$code" -ne 0 ]; then cat "$file"; fi
    echo "seeds from ${k}00000: exit code $code" >&2
    result=$(worst "$result" "$code")
    if [ "$code" -eq 130 ] || [ "$code" -eq 143 ] || [ "$code" -eq 2 ]; then break; fi
done
table "${files[@]}"
exit "$result"
