#!/usr/bin/env bash
# Installs the program for the following steps: VERSION is a tag or `source`; if it is empty, USED_AT applies, the tag at which the action is used.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
folder=$RUNNER_TEMP/ipam-sim
mkdir -p "$folder/bin"
version=$VERSION
if [ -z "$version" ]; then
    version=source
    if [[ ${USED_AT:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then version=$USED_AT; fi
fi
if [ "$version" = source ]; then
    # In the source folder, whose .cargo/config.toml has `--cfg madsim`; the variables would replace it.
    cd "$root"
    unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
    cargo install --locked --path sim/cli --root "$folder"
else
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64) target=x86_64-unknown-linux-gnu ;;
        Linux-aarch64) target=aarch64-unknown-linux-gnu ;;
        Darwin-arm64) target=aarch64-apple-darwin ;;
        *)
            echo "::error::ipam-sim has no binary for $(uname -s) on $(uname -m); use \`version: source\`, with a Rust toolchain" >&2
            exit 2
            ;;
    esac
    releases=${RELEASES:-$GITHUB_SERVER_URL/$REPOSITORY/releases/download}
    name=ipam-sim-${version#v}-$target
    for file in "$name.tar.gz" "$name.tar.gz.sha256"; do
        if ! curl --fail --silent --show-error --location --retry 3 --output "$folder/$file" "$releases/$version/$file"; then
            echo "::error::$releases/$version/$file cannot be had; is \`$version\` a release?" >&2
            exit 2
        fi
    done
    cd "$folder"
    if command -v sha256sum > /dev/null; then
        sha256sum --check "$name.tar.gz.sha256"
    else
        shasum --algorithm 256 --check "$name.tar.gz.sha256"
    fi
    tar -xzf "$name.tar.gz"
    mv "$name/ipam-sim" bin/ipam-sim
fi
"$folder/bin/ipam-sim" --version
echo "$folder/bin" >> "$GITHUB_PATH"
echo "program=$folder/bin/ipam-sim" >> "$GITHUB_OUTPUT"
