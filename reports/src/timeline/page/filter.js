// What is shown: the cursor, the filters, and the rows that pass them.

const state = {
  cursor: T.violations.length ? T.violations[0].to : first,
  text: "", hidden: new Set(), lane: null, object: null, followed: false,
  // Whose causes are shown alone, and which they are.
  chainOf: null, chain: null,
};
let rows = [], rowAt = new Int32Array(1), endAt = new Int32Array(1), passes = new Uint8Array(1), words = [];

// An event and all it came of.
function causesOf(number) {
  const chain = new Set(), waiting = [number];
  while (waiting.length && chain.size < 2000) {
    const next = waiting.pop();
    if (chain.has(next) || !at(next)) continue;
    chain.add(next);
    waiting.push(...(at(next).b || []).map((cause) => cause.event));
  }
  return chain;
}

// Whether an event passes the filters besides those by kind. `text`: where words are looked for.
function matches(event, i, text) {
  return (state.lane === null || event.l === state.lane || event.p === state.lane || violatedAt.has(first + i)
      || (event.l === undefined && T.faults.some((fault) => (fault.from === first + i || fault.to === first + i) && (!fault.lanes.length || fault.lanes.includes(state.lane)))))
    && (state.object === null || event.o === state.object)
    && (!state.followed || event.f)
    && (!state.chain || state.chain.has(first + i))
    && words.every((word) => (/^#\d+$/.test(word) ? word === `#${first + i}` : text.includes(word)));
}
const isFiltered = () => Boolean(words.length || state.hidden.size || state.lane !== null || state.object !== null || state.followed || state.chain);

function filter() {
  rows = [];
  rowAt = new Int32Array(E.length + 1);
  endAt = new Int32Array(E.length);
  passes = new Uint8Array(E.length);
  words = state.text.toLowerCase().replace(/->/g, "\u2192").replace(/<-/g, "\u2190").split(/\s+/).filter(Boolean);
  const long = Math.min(Math.max(end / 50, 1e5), 1e6);
  let before = null, shown = 0;
  const pause = (time) => before !== null && time - before >= long && rows.push({ gap: time - before });
  E.forEach((event, i) => {
    rowAt[i] = endAt[i] = rows.length;
    if (!state.hidden.has(kindOf(event)) && matches(event, i, haystack[i])) {
      passes[i] = 1;
      shown += 1;
      pause(event.t);
      rowAt[i] = rows.length;
      rows.push({ event: i, fresh: before !== event.t });
      before = event.t;
    }
    // A violation stays, whatever kinds are hidden.
    for (const told of violatedAt.get(first + i) || []) {
      if (!passes[i] && !matches(event, i, `${haystack[i]} ${told.text.toLowerCase()}`)) continue;
      pause(told.at);
      rows.push({ told, event: i, fresh: before !== told.at });
      before = Math.max(before, told.at);
    }
    endAt[i] = rows.length;
  });
  rowAt[E.length] = rows.length;
  const some = shown === E.length ? "" : ` of ${grouped(E.length)}`, whom = state.lane === null ? "" : `, ${lanes[state.lane].name} only`;
  count.textContent = `${grouped(shown)}${some} events${whom}`;
  clear.hidden = !isFiltered();
  canvas.style.height = `${Math.max(rows.length * ROW, 1) + 12}px`;
  drawn = "";
}
const rowOf = (number) => rowAt[clamp(number - first, 0, E.length)];
const isShown = (number) => passes[number - first] === 1;
// The row after the last one that belongs to an event.
const endOf = (number) => endAt[clamp(number - first, 0, E.length - 1)];
const isTold = (box) => Boolean((rows[endOf(box.to) - 1] || {}).told) && rows[endOf(box.to) - 1].event === box.to - first;
