# Draws requests.jsonl, the audit log of two minutes of an API server that works on one request at a time, the same on every machine:
#
#     awk -f requests.awk | LC_ALL=C sort | cut -f 2- > requests.jsonl
#
# A request waits for its turn, keeps the server busy for 1 ms (a read) or 2 ms (a write), a fifth more or less, and is answered after as long again.
# Agents come in pairs, twice a second and a few milliseconds apart, and every five seconds a dozen come at once; each reads a ConfigMap, thinks for
# 0.3 to 5.3 ms, and writes it. A write whose version is not the latest when it is carried out meets a conflict, which takes 0.5 ms more. Random numbers
# are those of Lehmer's generator (16807, 2^31 - 1).
function random(n) {
    state = (state * 16807) % 2147483647
    return state % n
}
function stamp(micros) {
    return sprintf("2026-01-15T%02d:%02d:%02d.%06dZ", 12 + int(micros / 3600000000), int(micros / 60000000) % 60, int(micros / 1000000) % 60, micros % 1000000)
}
function about(micros) {
    return int(micros * (80 + random(41)) / 100)
}
# One request: when it came, its verb, when it was answered, and with what.
function event(at, verb, done, code) {
    # Beyond 2^31 some awks have no whole numbers.
    printf "%012.0f\t", done
    printf "{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\",\"auditID\":\"%08x-0000-4000-8000-000000000000\",", ++events
    printf "\"stage\":\"ResponseComplete\",\"requestURI\":\"/api/v1/namespaces/kube-system/configmaps/pool\",\"verb\":\"%s\",\"user\":{\"username\":\"agent\"},", verb
    printf "\"objectRef\":{\"resource\":\"configmaps\",\"namespace\":\"kube-system\",\"name\":\"pool\",\"apiVersion\":\"v1\"},"
    printf "\"responseStatus\":{\"code\":%d},\"requestReceivedTimestamp\":\"%s\",\"stageTimestamp\":\"%s\"}\n", code, stamp(at), stamp(done)
}
# The next thing that comes to the server, in the order of time: agents whose turn is `due`, to read (`reads`) or to write.
function serve(   agent, next_one, work) {
    next_one = 0
    for (agent in due) if (!next_one || due[agent] < due[next_one] || (due[agent] == due[next_one] && agent + 0 < next_one + 0)) next_one = agent
    agent = next_one
    at = due[agent]
    begins = at > free ? at : free
    if (reads[agent]) {
        free = begins + about(1000)
        seen[agent] = version
        done = free + about(1000)
        event(at, "get", done, 200)
        due[agent] = done + 300 + random(5000)
        reads[agent] = 0
        return
    }
    work = about(2000)
    conflict = seen[agent] != version
    free = begins + work + (conflict ? 500 : 0)
    done = free + about(2000)
    event(at, "update", done, conflict ? 409 : 200)
    if (!conflict) version++
    delete due[agent]
    waiting--
}
BEGIN {
    state = 20260115
    second = 1000000
    version = 1
    for (step = 0; step < 240; step++) {
        many = step % 10 == 0 ? 12 : 2
        for (n = 0; n < many; n++) {
            agent = ++agents
            due[agent] = step * second / 2 + random(many == 2 ? 9000 : 2000)
            reads[agent] = 1
            waiting++
        }
        # All are done before the next ones come.
        while (waiting > 0) serve()
    }
}
