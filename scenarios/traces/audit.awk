# Draws audit.jsonl, the audit log of an hour of a small cluster, the same on every machine:
#
#     awk -f audit.awk | LC_ALL=C sort | cut -f 2- > audit.jsonl
#
# The level is Metadata, as most clusters have it: a pod of a ReplicaSet has no name in the event that creates it, and gets one with its binding.
# 8 pods of a StatefulSet are there when the log begins, and 4 of them are deleted and come again under their names; 30 pods of a Deployment come and go;
# one creation is refused by a quota. Random numbers are those of Lehmer's generator (16807, 2^31 - 1).
function random(n) {
    state = (state * 16807) % 2147483647
    return state % n
}
function stamp(micros) {
    return sprintf("2026-01-15T%02d:%02d:%02d.%06dZ", 12 + int(micros / 3600000000), int(micros / 60000000) % 60, int(micros / 1000000) % 60, micros % 1000000)
}
# One request: when, by whom, verb, subresource, name, what it was answered with.
function event(at, user, verb, part, name, code,    took, uri) {
    took = 2000 + random(9000)
    uri = "/api/v1/namespaces/shop/pods" (name == "" ? "" : "/" name) (part == "" ? "" : "/" part)
    # Beyond 2^31 some awks have no whole numbers.
    printf "%012.0f\t", at + took
    printf "{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\",\"auditID\":\"%08x-0000-4000-8000-000000000000\",", ++events
    printf "\"stage\":\"ResponseComplete\",\"requestURI\":\"%s\",\"verb\":\"%s\",\"user\":{\"username\":\"%s\"},", uri, verb, user
    printf "\"objectRef\":{\"resource\":\"pods\",\"namespace\":\"shop\",%s\"apiVersion\":\"v1\"%s},", (name == "" ? "" : "\"name\":\"" name "\","), (part == "" ? "" : ",\"subresource\":\"" part "\"")
    printf "\"responseStatus\":{\"code\":%d},\"requestReceivedTimestamp\":\"%s\",\"stageTimestamp\":\"%s\"}\n", code, stamp(at), stamp(at + took)
}
function arrive(at, controller, name, named,    node) {
    node = "system:node:n" (1 + random(3))
    event(at, "system:serviceaccount:kube-system:" controller, "create", "", named ? name : "", 201)
    event(at + 15000 + random(20000), "system:kube-scheduler", "create", "binding", name, 201)
    event(at + 1500000 + random(2000000), node, "patch", "status", name, 200)
}
function leave(at, controller, name,    node) {
    node = "system:node:n" (1 + random(3))
    event(at, "system:serviceaccount:kube-system:" controller, "delete", "", name, 200)
    event(at + 1000000 + random(3000000), node, "patch", "status", name, 200)
    event(at + 5000000 + random(20000000), node, "delete", "", name, 200)
}
BEGIN {
    state = 20260115
    second = 1000000
    for (n = 0; n < 8; n++) event((5 + random(30)) * second, "system:node:n" (1 + n % 3), "patch", "status", "db-" n, 200)
    for (n = 0; n < 4; n++) {
        at = (900 + 400 * n) * second
        leave(at, "statefulset-controller", "db-" n)
        arrive(at + 40 * second, "statefulset-controller", "db-" n, 1)
    }
    event(600 * second, "system:serviceaccount:kube-system:replicaset-controller", "create", "", "", 403)
    for (n = 0; n < 30; n++) {
        name = sprintf("web-7c5ddbdf54-%05d", 10000 + random(89999))
        at = (60 + random(2900)) * second + random(second)
        arrive(at, "replicaset-controller", name, 0)
        if (n % 4 != 0) leave(at + (90 + random(600)) * second, "replicaset-controller", name)
    }
}
