#!/usr/bin/env bash
# Makes the archive of a release, with its checksum beside it: the program, licence, README and changelog, completions and the shipped scenarios.
#
#   ci/release/archive.sh target/dist/ipam-sim x86_64-unknown-linux-gnu dist     # dist/ipam-sim-0.1.0-x86_64-unknown-linux-gnu.tar.gz
set -euo pipefail
if [ $# -ne 3 ]; then
    echo "usage: ci/release/archive.sh PROGRAM TARGET FOLDER" >&2
    exit 2
fi
program=$1 target=$2 folder=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
# The program must run on this machine: it prints its completions.
version=$("$program" --version | awk '{ print $2 }')
name=ipam-sim-$version-$target
mkdir -p "$folder"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/$name/completions"
cp "$program" "$stage/$name/ipam-sim"
cp "$root/LICENSE" "$root/README.md" "$root/CHANGELOG.md" "$stage/$name/"
cp -R "$root/scenarios" "$stage/$name/scenarios"
for shell in bash:ipam-sim.bash zsh:_ipam-sim fish:ipam-sim.fish elvish:ipam-sim.elv powershell:_ipam-sim.ps1; do
    "$program" completions "${shell%%:*}" > "$stage/$name/completions/${shell#*:}"
done
tar -C "$stage" -czf "$folder/$name.tar.gz" "$name"
cd "$folder"
if command -v sha256sum > /dev/null; then
    sha256sum "$name.tar.gz" > "$name.tar.gz.sha256"
else
    shasum -a 256 "$name.tar.gz" > "$name.tar.gz.sha256"
fi
echo "$folder/$name.tar.gz"
