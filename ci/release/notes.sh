#!/usr/bin/env bash
# Prints the section of CHANGELOG.md for the release of a tag. Fails (1) if the tag does not match the version in Cargo.toml, or if there is no such text.
#
#   ci/release/notes.sh v0.1.0 > notes.md
set -euo pipefail
if [ $# -ne 1 ]; then
    echo "usage: ci/release/notes.sh TAG" >&2
    exit 2
fi
cd "$(dirname "$0")/../.."
version=$(awk '/^\[/ { within = $0 == "[workspace.package]" } within && $1 == "version" { gsub(/"/, "", $3); print $3 }' Cargo.toml)
if [ "$1" != "v$version" ]; then
    echo "ci/release/notes.sh: the tag is $1, but the version in Cargo.toml is $version; tag v$version, or change the version" >&2
    exit 1
fi
notes=$(awk -v heading="## [$version]" '/^## / { within = index($0, heading) == 1; next } within' CHANGELOG.md)
if [ -z "${notes//[[:space:]]/}" ]; then
    echo "ci/release/notes.sh: CHANGELOG.md has nothing under \"## [$version]\"; rename \"## [Unreleased]\"" >&2
    exit 1
fi
printf '%s\n' "$notes"
