#!/usr/bin/env bash
# The gate as a CI system runs it: verdict as exit code, JUnit XML and a summary in target/ipam-sim/gate (or $GATE_OUT), and annotations
# on GitHub. Further flags go to `ipam-sim gate`: ci/gate.sh --budget 60s
set -euo pipefail
cd "$(dirname "$0")/.."
# The variable would replace `--cfg madsim` of .cargo/config.toml.
unset RUSTFLAGS RUSTDOCFLAGS
out=${GATE_OUT:-target/ipam-sim/gate}
flags=(--junit "$out/gate.xml" --summary "$out/gate.md" --out "$out/plans")
if [ "${GITHUB_ACTIONS:-}" = true ]; then flags+=(--github); fi
cargo build --release --package ipam-sim
exec target/release/ipam-sim gate "${flags[@]}" "$@"
