#!/usr/bin/env bash
# Runs the program and keeps what it finds in OUT: result.json, plans of failing seeds, story pages, JUnit, summary. A verdict (0, 1, 3, 4, 5, 6)
# becomes the output `exit-code`; everything else fails, as in `ci/shard.sh`.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
# Words are separated by blanks and line breaks; `*` is not a pattern.
set -f
# shellcheck disable=SC2206
words=($ARGS)
# shellcheck disable=SC2206
case $COMMAND in
    gate) words=(--scenarios "$SCENARIOS" ${words[@]+"${words[@]}"}) ;;
    run) words=($SCENARIOS ${words[@]+"${words[@]}"}) ;;
    *)
        echo "::error::\`command\` is \`$COMMAND\`; it has to be \`gate\` or \`run\`" >&2
        exit 2
        ;;
esac
set +f
if ! [[ $STORIES =~ ^[0-9]+$ ]]; then
    echo "::error::\`stories\` is \`$STORIES\`; it has to be a whole number, 0 or more" >&2
    exit 2
fi
# Nothing from an earlier run is reported again.
rm -rf "$OUT"/plans/*.toml "$OUT"/plans/*/*.toml "$OUT/stories"
mkdir -p "$OUT/stories"
code=0
"$root/ci/shard.sh" "$OUT/result.json" \
    "$PROGRAM" "$COMMAND" "${words[@]}" --out "$OUT/plans" --force --format json || code=$?
if [ "$code" -ne 0 ]; then
    echo "exit-code=$code" >> "$GITHUB_OUTPUT"
    echo "::error::ipam-sim $COMMAND ended with $code, which is no verdict" >&2
    exit "$code"
fi
# Judges the single result as if it were one of several shards, and writes readable reports.
"$PROGRAM" merge "$OUT/result.json" --junit "$OUT/junit.xml" --summary "$OUT/summary.md" --github || code=$?
case $code in
    0) verdict=held ;;
    1) verdict=violated ;;
    3) verdict=late ;;
    4) verdict=vacuous ;;
    5) verdict=nondeterministic ;;
    6) verdict=incomplete ;;
    *)
        echo "exit-code=$code" >> "$GITHUB_OUTPUT"
        echo "::error::ipam-sim merge ended with $code, which is no verdict" >&2
        exit "$code"
        ;;
esac
# Pages are made from the shrunk plans if there are any: they show what the failure needs.
# Those of `gate` are in one folder per part.
shopt -s nullglob
plans=("$OUT"/plans/*-min.toml "$OUT"/plans/*/*-min.toml)
if [ ${#plans[@]} -eq 0 ]; then plans=("$OUT"/plans/*.toml "$OUT"/plans/*/*.toml); fi
pages=0
for plan in ${plans[@]+"${plans[@]}"}; do
    if [ "$pages" -ge "$STORIES" ]; then break; fi
    page=${plan#"$OUT/plans/"}
    page=$OUT/stories/$(echo "${page%.toml}" | tr / -).html
    told=0
    "$PROGRAM" replay "$plan" --html "$page" > /dev/null || told=$?
    # A failing plan reproduces its failure, so that exit codes 1 and 3 are expected.
    case $told in
        0 | 1 | 3) pages=$((pages + 1)) ;;
        *) echo "::warning::$plan cannot be told: ipam-sim replay ended with $told" ;;
    esac
done
echo "exit-code=$code" >> "$GITHUB_OUTPUT"
echo "verdict=$verdict" >> "$GITHUB_OUTPUT"
echo "ipam-sim $COMMAND: $verdict ($code), $pages story pages in $OUT/stories"
