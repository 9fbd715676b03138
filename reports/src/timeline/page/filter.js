// What is shown: the cursor, the filters, and the rows that pass them.

const state = {
  cursor: T.violations.length ? T.violations[0].to : first,
  text: "", hidden: new Set(), lane: null, object: null, followed: false, chain: null,
};
let rows = [], rowAt = new Int32Array(1), endAt = new Int32Array(1), passes = new Uint8Array(1);

// An event and all it came of.
function chainOf(number) {
  const chain = new Set(), waiting = [number];
  while (waiting.length && chain.size < 2000) {
    const next = waiting.pop();
    if (chain.has(next) || !at(next)) continue;
    chain.add(next);
    waiting.push(...(at(next).b || []).map((cause) => cause.event));
  }
  return chain;
}

function wanted(event, i) {
  return !state.hidden.has(kindOf(event))
    && (state.lane === null || event.l === state.lane || event.p === state.lane || violatedAt.has(first + i)
      || (event.l === undefined && T.faults.some((fault) => (fault.from === first + i || fault.to === first + i) && (!fault.lanes.length || fault.lanes.includes(state.lane)))))
    && (state.object === null || event.o === state.object)
    && (!state.followed || event.f)
    && (!state.chain || state.chain.has(first + i))
    && (!state.text || state.text.split(/\s+/).every((word) => haystack[i].includes(word)));
}

function filter() {
  rows = [];
  rowAt = new Int32Array(E.length + 1);
  endAt = new Int32Array(E.length);
  passes = new Uint8Array(E.length);
  const long = Math.min(Math.max(end / 50, 1e5), 1e6);
  let before = null, shown = 0;
  E.forEach((event, i) => {
    rowAt[i] = endAt[i] = rows.length;
    if (!wanted(event, i)) return;
    passes[i] = 1;
    if (before !== null && event.t - before >= long) {
      rows.push({ gap: event.t - before });
      rowAt[i] = rows.length;
    }
    rows.push({ event: i, fresh: before !== event.t });
    before = event.t;
    shown += 1;
    for (const violation of violatedAt.get(first + i) || []) rows.push({ violation, event: i });
    endAt[i] = rows.length;
  });
  rowAt[E.length] = rows.length;
  count.textContent = shown === E.length ? `${grouped(shown)} events` : `${grouped(shown)} of ${grouped(E.length)} events`;
  canvas.style.height = `${Math.max(rows.length * ROW, 1) + 12}px`;
  drawn = "";
}
const rowOf = (number) => rowAt[clamp(number - first, 0, E.length)];
const isShown = (number) => passes[number - first] === 1;
// The row after the last one that belongs to an event.
const endOf = (number) => endAt[clamp(number - first, 0, E.length - 1)];
