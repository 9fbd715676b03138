# Makes trace-hour.csv, the same on every machine:
#
#     awk -f trace-hour.awk | sort -t, -k2,2n -k1,1 | sed '1i name,creation_time,deletion_time,scheduled_time' > trace-hour.csv
#
# The pods are made up. In an hour of a small cluster there are 60 services, two thirds of which are replaced at some time; six waves of 24 batch jobs,
# ten minutes apart; and 120 short pods at any time. Random numbers are those of Lehmer's generator (16807, 2^31 - 1).
function random(n) {
    state = (state * 16807) % 2147483647
    return state % n
}
function pod(kind, created, life) {
    count[kind]++
    printf "%s-%03d,%d,%s,%d\n", kind, count[kind], created, (life > 0) ? created + life : "", created + random(3)
}
BEGIN {
    state = 20260115
    for (n = 0; n < 60; n++) pod("service", random(300), n % 3 == 0 ? 0 : 600 + random(2700))
    for (wave = 0; wave < 6; wave++) for (n = 0; n < 24; n++) pod("batch", 300 + 600 * wave + random(20), 120 + random(240))
    for (n = 0; n < 120; n++) pod("short", random(3300), 30 + random(570))
}
