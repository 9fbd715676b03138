#!/usr/bin/env bash
# Builds target/profile-guided/release/ipam-sim (or another profile: `ci/profile-guided.sh dist`): the same program, optimised with the
# profile of a short sweep. It builds twice, so it is for long sweeps. docs/performance.md has the gain.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:-release}
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/target/profile-guided
program=$CARGO_TARGET_DIR/$profile/ipam-sim
counts=$CARGO_TARGET_DIR/counts
merge=$(dirname "$(rustc --print target-libdir)")/bin/llvm-profdata
[ -x "$merge" ] || rustup component add llvm-tools

rm -rf "$counts"
# The variable replaces `--cfg madsim` of .cargo/config.toml.
RUSTFLAGS="--cfg madsim -Cprofile-generate=$counts" cargo build --profile "$profile" --package ipam-sim
# With only ten seeds some claims have nothing to judge, which does not matter here.
"$program" run scenarios/smoke scenarios/chaos --seeds 10 --no-shrink --out "$counts/results" > /dev/null || true
"$merge" merge -o "$counts/merged.profdata" "$counts"/*.profraw
RUSTFLAGS="--cfg madsim -Cprofile-use=$counts/merged.profdata" cargo build --profile "$profile" --package ipam-sim
