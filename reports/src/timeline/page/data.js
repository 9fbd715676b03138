// The timeline, and what is looked up in it.

// Arrows that are typed become real ones. The data escape `<` and `>`.
const T = JSON.parse(document.getElementById("data").textContent.replace(/ -\\u003e /g, " \u2192 ").replace(/ \\u003c- /g, " \u2190 "));
const E = T.events, first = T.first, lanes = T.lanes, end = Math.max(T.simulated_s * 1e6, 1);
const at = (number) => E[number - first];
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

const clock = (micros) => (micros / 1e6).toFixed(6);
const span = (micros) => {
  if (micros < 1e3) return `${micros} \u00b5s`;
  if (micros < 1e6) return `${+(micros / 1e3).toPrecision(3)} ms`;
  if (micros < 120e6) return `${+(micros / 1e6).toPrecision(3)} s`;
  return minutes(micros);
};
const minutes = (micros) => {
  const whole = Math.round(micros / 1e6), hours = Math.floor(whole / 3600), left = Math.floor(whole / 60) % 60;
  return hours ? `${hours} h${left ? ` ${left} min` : ""}` : `${left} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
};
const ordinal = (n) => n + (/(?<!1)[123]$/.test(n) ? ["st", "nd", "rd"][n % 10 - 1] : "th");
const seconds = (at_s) => `${(Math.floor(at_s * 1e3 + 1e-6) / 1e3).toFixed(3)} s`;
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const group = { request: "request", answer: "answer", commit: "commit", deliver: "deliver", note: "note", begin: "fault", end: "fault", fire: "fault" };
const kindOf = (event) => group[event.k] || "process";
const isBad = (event) => event.k === "crash" || event.k === "panic" || (event.e && event.e !== "ok");
const laneName = (event) => (event.l === undefined ? "fault" : lanes[event.l].name);
// Who is behind an event: of a write the client, not the server that carried it out.
const whose = (number) => {
  const event = at(number), call = event.k === "commit" && callOf.get(number);
  return call ? lanes[call.l].name : laneName(event);
};
const haystack = E.map((event, i) => `#${first + i} ${laneName(event)} ${event.p === undefined ? "" : lanes[event.p].name} ${event.x} ${event.d || ""}`.toLowerCase());

const faultSlots = slots(T.faults, (fault) => fault.from, (fault) => fault.to);
const busy = new Set(E.flatMap((event) => [event.l, event.p]));

// Gives each interval the first slot that is free, so that none lie on one another.
function slots(intervals, from, to) {
  const free = [], of = [];
  for (const interval of intervals) {
    let slot = free.findIndex((until) => until <= from(interval));
    if (slot < 0) slot = free.length;
    free[slot] = to(interval) === undefined ? Infinity : to(interval);
    of.push(slot);
  }
  return { of, count: free.length };
}
const callSlot = new Map();
lanes.forEach((_, lane) => {
  const own = T.calls.filter((call) => call.l === lane && call.a !== undefined);
  const { of } = slots(own, (call) => call.q, (call) => call.a);
  own.forEach((call, i) => callSlot.set(call, of[i]));
});
const callOf = new Map();
for (const call of T.calls) for (const part of [call.q, ...(call.c || []), ...(call.a === undefined ? [] : [call.a])]) callOf.set(part, call);

const boxes = new Map();
T.violations.forEach((violation) => {
  const key = `${violation.from} ${violation.to}`;
  if (!boxes.has(key)) boxes.set(key, { from: violation.from, to: violation.to, violations: [] });
  boxes.get(key).violations.push(violation);
});
// What is violated at an event, each with its own time: a deadline passes when nothing happens. What says the same is told once.
const violatedAt = new Map();
for (const violation of T.violations) {
  const { claim, excuse, detail = [], at_s } = violation, text = [claim, excuse || "", ...detail].join("\n");
  if (!violatedAt.has(violation.to)) violatedAt.set(violation.to, []);
  const told = violatedAt.get(violation.to), same = told.find((one) => one.text === text && one.violation.at_s === at_s);
  if (same) same.times += 1;
  else told.push({ violation, text, times: 1, at: Math.round(at_s * 1e6) });
}
const claimOf = ({ violation, times }) => `\u2717 ${violation.claim}${times > 1 ? ` \u00d7${times}` : ""}`;
const effects = new Map();
E.forEach((event, i) => (event.b || []).forEach((cause) => {
  if (!effects.has(cause.event)) effects.set(cause.event, []);
  effects.get(cause.event).push(first + i);
}));
