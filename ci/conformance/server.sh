#!/usr/bin/env bash
# Starts an empty etcd and kube-apiserver on loopback for a recording: see README.md.
#
#   ci/conformance/server.sh DIR [ETCD_PORT [API_PORT [kube-apiserver flags ...]]]    default ports 12379 (and 12380 for peers), 16443
#   ci/conformance/server.sh --down DIR
#
# DIR is emptied. Afterwards it holds kubeconfig, ca.crt, token, api.pid, etcd.pid, api.log, etcd.log.
#
# The programs are those in KUBEBUILDER_ASSETS, as setup-envtest installs them. If it is not set, they are built once from their Go modules
# into target/conformance, in a few minutes on two cores. Needs curl and openssl, and Go to build.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${KUBEBUILDER_ASSETS:-$here/../../target/conformance}

if [ "${1:-}" = --down ]; then
    for process in api etcd; do
        [ -f "$2/$process.pid" ] && kill "$(cat "$2/$process.pid")" 2> /dev/null || true
    done
    exit 0
fi

# build PROGRAM, unless it exists
build() {
    [ -x "$bin/$1" ] && return
    if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
        echo "KUBEBUILDER_ASSETS has no $1; install it there with setup-envtest, or unset the variable" >&2
        exit 2
    fi
    mkdir -p "$bin"
    local package=k8s.io/component-base/version version
    version=$(sed -n 's|^require k8s.io/kubernetes ||p' "$here/server/go.mod")
    local minor=${version#v*.}
    echo "builds $1 of $here/server" >&2
    (cd "$here/server" && go build -o "$bin/$1" -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 \
        -X $package.gitMinor=${minor%%.*} -X $package.gitTreeState=clean" "./$1")
}

dir=${1:?a folder for data, logs and the kubeconfig}
etcd_port=${2:-12379}
api_port=${3:-16443}
shift "$(($# < 3 ? $# : 3))"
build etcd
build kube-apiserver

if [ -e "$dir" ] && [ ! -e "$dir/etcd.pid" ] && [ -n "$(ls -A "$dir")" ]; then
    echo "$dir holds something else; name an empty or a new folder" >&2
    exit 2
fi
rm -rf "$dir"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
openssl genrsa -out "$dir/sa.key" 2048 2> /dev/null
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/tls.key" -out "$dir/ca.crt" -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 2> /dev/null
echo conformance > "$dir/token"
echo 'conformance,admin,admin-uid,"system:masters"' > "$dir/tokens.csv"
cat > "$dir/kubeconfig" << EOF
apiVersion: v1
kind: Config
clusters: [{name: real, cluster: {server: "https://127.0.0.1:$api_port", certificate-authority: $dir/ca.crt}}]
users: [{name: admin, user: {token: conformance}}]
contexts: [{name: real, context: {cluster: real, user: admin}}]
current-context: real
EOF

"$bin/etcd" --data-dir "$dir/etcd" \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls "http://127.0.0.1:$((etcd_port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((etcd_port + 1))" \
    --initial-cluster "default=http://127.0.0.1:$((etcd_port + 1))" > "$dir/etcd.log" 2>&1 &
echo $! > "$dir/etcd.pid"
"$bin/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd_port" \
    --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$api_port" \
    --tls-cert-file "$dir/ca.crt" --tls-private-key-file "$dir/tls.key" \
    --service-account-key-file "$dir/sa.key" --service-account-signing-key-file "$dir/sa.key" \
    --service-account-issuer https://kubernetes.default.svc --token-auth-file "$dir/tokens.csv" --authorization-mode RBAC \
    --service-cluster-ip-range 10.0.0.0/16 --endpoint-reconciler-type none "$@" > "$dir/api.log" 2>&1 &
echo $! > "$dir/api.pid"

for second in $(seq 90); do
    if curl -s --cacert "$dir/ca.crt" -H 'Authorization: Bearer conformance' "https://127.0.0.1:$api_port/readyz" | grep -q '^ok'; then
        echo "ready after $second s: KUBECONFIG=$dir/kubeconfig"
        exit 0
    fi
    for process in etcd api; do
        kill -0 "$(cat "$dir/$process.pid")" 2> /dev/null || { tail -n 3 "$dir/$process.log" >&2; break 2; }
    done
    sleep 1
done
echo "not ready after $second s; see api.log and etcd.log in $dir" >&2
"$here/server.sh" --down "$dir"
exit 1
