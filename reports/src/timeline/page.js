"use strict";
// Draws a timeline. One row an event; only the rows in sight exist. Texts of the run go into the page as text, never as markup.
(() => {
  const T = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const ROW = 22, HEAD = 146, NO_W = 52, TIME_W = 88, STORE_W = 58;
  // Below this width of the list the lanes are left out.
  const NARROW = 560;
  // And below this one they take less of it.
  const MEDIUM = 860;
  // How tall the head of the list is: without lanes it has no names.
  const head = () => (document.body.classList.contains("narrow") ? 24 : HEAD);
  const E = T.events, first = T.first, lanes = T.lanes, end = Math.max(T.simulated_s * 1e6, 1);
  const at = (number) => E[number - first];
  const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

  // ---------------------------------------------------------------------------------------------------------- elements
  const put = (parent, node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    for (const child of [children].flat()) if (child !== undefined && child !== null) node.append(child);
    if (parent) parent.append(node);
    return node;
  };
  const el = (name, attributes, children) => put(null, document.createElement(name), attributes, children);
  const svg = (parent, name, attributes, children) => put(parent, document.createElementNS(NS, name), attributes, children);

  // -------------------------------------------------------------------------------------------------------------- words
  const clock = (micros) => (micros / 1e6).toFixed(6);
  const span = (micros) => {
    if (micros < 1e3) return `${micros} \u00b5s`;
    if (micros < 1e6) return `${+(micros / 1e3).toPrecision(3)} ms`;
    if (micros < 120e6) return `${+(micros / 1e6).toPrecision(3)} s`;
    const seconds = Math.round(micros / 1e6), hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
    return hours ? `${hours} h${minutes ? ` ${minutes} min` : ""}` : `${minutes} min${seconds % 60 ? ` ${seconds % 60} s` : ""}`;
  };
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

  // ----------------------------------------------------------------------------------------------------------- geometry
  const faultSlots = slots(T.faults, (fault) => fault.from, (fault) => fault.to);
  const shownSlots = Math.min(faultSlots.count, 6);
  const gutter = T.faults.length ? shownSlots * 14 + 10 : 4;
  const busy = new Set(E.flatMap((event) => [event.l, event.p]));
  const LEFT = TIME_W + NO_W;
  // The column of names; in a list that is not wide it leaves room to the texts.
  const whoWidth = () => Math.min(stage.clientWidth < MEDIUM ? 76 : 116, Math.max(40, ...lanes.map((lane) => lane.name.length * 6.4 + 8)));
  let widths = [], lefts = [], lanesWidth = 0;
  const xOf = (lane) => lefts[lane] + widths[lane] / 2;
  // The lanes take what the texts can spare; those in which nothing happens take little.
  function layout() {
    // Where there is no room for both, the text is what counts.
    const narrow = stage.clientWidth < NARROW;
    document.body.classList.toggle("narrow", narrow);
    if (narrow) {
      widths = lanes.map(() => 0);
      lefts = lanes.map(() => 0);
      lanesWidth = 0;
      return;
    }
    const quiet = lanes.filter((lane, i) => lane.role !== "store" && !busy.has(i)).length, loud = Math.max(1, lanes.length - quiet - 1);
    const medium = stage.clientWidth < MEDIUM;
    const room = (stage.clientWidth - LEFT) * (medium ? 0.36 : 0.5) - gutter - STORE_W - quiet * 16;
    const each = clamp(Math.floor(room / loud), medium ? 13 : 19, 46);
    widths = lanes.map((lane, i) => (lane.role === "store" ? STORE_W : busy.has(i) ? each : 16));
    lefts = widths.map((_, i) => gutter + widths.slice(0, i).reduce((sum, width) => sum + width, 0));
    lanesWidth = gutter + widths.reduce((sum, width) => sum + width, 0) + 6;
  }

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
  const violatedAt = new Map();
  for (const box of boxes.values()) violatedAt.set(box.to, [...(violatedAt.get(box.to) || []), ...box.violations]);
  const effects = new Map();
  E.forEach((event, i) => (event.b || []).forEach((cause) => {
    if (!effects.has(cause.event)) effects.set(cause.event, []);
    effects.get(cause.event).push(first + i);
  }));

  // -------------------------------------------------------------------------------------------------------------- state
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

  // --------------------------------------------------------------------------------------------------------------- page
  const count = el("span", { class: "count" });
  const stage = el("div", { id: "stage", tabindex: "0", "aria-label": "events" });
  const canvas = el("div", { id: "canvas" });
  const view = el("div", { id: "window" });
  const aside = el("aside", { "aria-live": "polite" });
  const overview = svg(null, "svg", { id: "overview", role: "img", "aria-label": "the whole run by time" });
  const search = el("input", { type: "search", placeholder: "filter: text, process, #number", "aria-label": "filter", oninput: () => { state.text = search.value.trim().toLowerCase(); refilter(); } });

  function icon(kind) {
    const box = svg(null, "svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
    const color = { request: "var(--request)", answer: "var(--answer)", commit: "var(--commit)", deliver: "var(--deliver)", note: "var(--note)", fault: "var(--fault)", process: "var(--dim)" }[kind];
    if (kind === "request") arrow(box, 1, 12, 7, color, { open: true });
    else if (kind === "answer") arrow(box, 13, 2, 7, color, {});
    else if (kind === "deliver") arrow(box, 13, 2, 7, color, { dash: "2 2" });
    else if (kind === "commit") svg(box, "path", { d: diamond(7, 7, 5), fill: color });
    else if (kind === "note") svg(box, "circle", { cx: 7, cy: 7, r: 4, fill: color });
    else if (kind === "fault") svg(box, "path", { d: bolt(7, 7), fill: color });
    else svg(box, "path", { d: cross(7, 7, 4), stroke: color, "stroke-width": 2, fill: "none" });
    return box;
  }

  function header() {
    const failed = T.violations.filter((violation) => !violation.excuse);
    // One button a claim, however often it was violated; pressed again it leads to the next time.
    const byClaim = new Map();
    for (const violation of [...boxes.values()].flatMap((box) => box.violations)) {
      const key = `${violation.claim} ${violation.excuse || ""}`;
      if (!byClaim.has(key)) byClaim.set(key, []);
      byClaim.get(key).push(violation);
    }
    const when = (violation) => `${(Math.floor(violation.at_s * 1e3 + 1e-6) / 1e3).toFixed(3)} s`;
    const jumps = [...byClaim.values()].map((times) => {
      const [violation] = times, more = times.length > 1 ? ` \u00d7${times.length}` : "";
      const title = times.map((one) => [when(one), ...(one.detail || []).slice(0, 2)].join("  ")).join("\n");
      const next = () => (times.find((one) => one.to > state.cursor) || violation).to;
      return el("button", { class: violation.excuse ? "jump excused" : "jump", title, onclick: () => go(next(), true) },
        `\u2717 ${violation.claim}  ${when(violation)}${more}${violation.excuse ? " (excused)" : ""}`);
    });
    const theme = el("button", { title: "light or dark (t)", onclick: toggleTheme }, "\u25d0 theme");
    return el("header", {}, [
      el("h1", {}, `${T.scenario}, seed ${T.seed}`),
      el("span", { class: failed.length ? "verdict" : "verdict held" }, failed.length ? "violated:" : "held"),
      ...(jumps.length ? [el("div", { class: "jumps" }, jumps)] : []),
      el("span", { class: "spring" }),
      el("span", { class: "meta", title: `digest ${T.digest}\n${T.replay}` }, `${grouped(T.total)} events, ${span(T.simulated_s * 1e6)} simulated, digest ${T.digest.slice(0, 8)}`),
      theme,
      ...(T.provenance ? [provenance(T.provenance)] : []),
      ...T.remarks.map((remark) => el("p", { class: "remarks" }, remark)),
    ]);
  }

  function provenance(from) {
    const row = (name, ...value) => [el("dt", {}, name), el("dd", {}, value)];
    const listed = (names) => names.length ? names.join(", ") : "none";
    return el("details", { class: "provenance" }, [
      el("summary", {}, "where it comes from"),
      el("dl", {}, [
        ...row("replay", el("code", {}, from.replay)),
        ...row("profile", from.profile + ((from.without || []).length ? ` without ${from.without.join(", ")}` : "")),
        ...row("mutations", listed([...(from.profile === "upstream" ? ["all of upstream"] : []), ...(from.mutations || [])])),
        ...row("faults", listed(from.faults || [])),
        ...(from.shrunk_from ? row("shrunk from", el("code", {}, from.shrunk_from)) : []),
        ...row("version", `${from.version}, build ${from.build}`),
      ]),
    ]);
  }

  // What shows the filters: the buttons of kinds, those of `only`, the list of objects.
  const toggles = new Map(), pressed = new Map();
  let objects;

  function tools() {
    const names = { request: "requests", answer: "answers", commit: "writes", deliver: "watches", note: "actors", fault: "faults", process: "processes" };
    const kinds = Object.entries(names).filter(([kind]) => E.some((event) => kindOf(event) === kind)).map(([kind, name]) => {
      const button = el("button", { class: "toggle", "aria-pressed": "true", onclick: () => {
        if (!state.hidden.delete(kind)) state.hidden.add(kind);
        button.setAttribute("aria-pressed", String(!state.hidden.has(kind)));
        refilter();
      } }, [icon(kind), name]);
      toggles.set(kind, button);
      return button;
    });
    objects = el("select", { "aria-label": "object", onchange: () => { state.object = objects.value === "" ? null : Number(objects.value); refilter(); } }, [
      el("option", { value: "" }, "every object"),
      ...T.objects.map((object, i) => el("option", { value: i }, `${object.kind} ${object.name}`)),
    ]);
    const only = (name, title, change) => {
      const button = el("button", { class: "toggle only", title, "aria-pressed": "false", onclick: () => {
        button.setAttribute("aria-pressed", String(change()));
        refilter();
      } }, name);
      return button;
    };
    const followed = T.followed && only(`only ${T.followed}`, "only what touched it", () => (state.followed = !state.followed));
    const chain = only("only its causes", "only the event at the cursor and what it came of (c)", () => {
      state.chain = state.chain ? null : chainOf(state.cursor);
      return Boolean(state.chain);
    });
    chain.id = "chain";
    pressed.set("chain", chain);
    if (followed) pressed.set("followed", followed);
    return el("div", { class: "tools", role: "toolbar" }, [search, ...kinds, objects, followed, chain, count]);
  }

  function heads() {
    const names = el("div", { class: "names", style: `width:${lanesWidth}px;height:${HEAD}px` });
    if (T.faults.length) names.append(el("span", { class: "faults", style: `left:${gutter / 2 - 8}px` }, "faults"));
    lanes.forEach((lane, i) => {
      const quiet = busy.has(i) ? "" : " quiet";
      const button = el("button", { class: lane.role + quiet, style: `left:${xOf(i) - 8}px;width:16px`, "aria-pressed": String(state.lane === i), title: `${lane.name}: only this one`, onclick: () => {
        state.lane = state.lane === i ? null : i;
        names.querySelectorAll("button").forEach((other, k) => other.setAttribute("aria-pressed", String(k === state.lane)));
        refilter();
      } }, lane.name);
      names.append(button);
    });
    return el("div", { id: "heads" }, [
      el("span", { class: "when", style: `width:${TIME_W}px` }, "seconds"), el("span", { class: "when", style: `width:${NO_W}px` }, "event"), names,
      el("span", { class: "what" }, "what happened"),
    ]);
  }

  // ------------------------------------------------------------------------------------------------------------- shapes
  const diamond = (x, y, r) => `M${x - r} ${y}L${x} ${y - r}L${x + r} ${y}L${x} ${y + r}Z`;
  const cross = (x, y, r) => `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`;
  const bolt = (x, y) => `M${x + 2} ${y - 7}L${x - 4} ${y + 1}H${x}L${x - 2} ${y + 7}L${x + 4} ${y - 2}H${x}Z`;
  function arrow(parent, from, to, y, color, { dash, open, lost }) {
    const sign = to > from ? 1 : -1, tip = to - sign * 5;
    svg(parent, "line", { x1: from, x2: tip, y1: y, y2: y, stroke: color, "stroke-width": 1.5, "stroke-dasharray": dash });
    if (lost) return svg(parent, "path", { d: cross(to, y, 4), stroke: color, "stroke-width": 2, fill: "none" });
    return svg(parent, "path", { d: `M${to} ${y}L${to - sign * 7} ${y - 4}V${y + 4}Z`, fill: open ? "var(--bg)" : color, stroke: color, "stroke-width": 1.3, "stroke-linejoin": "round" });
  }

  // -------------------------------------------------------------------------------------------------------------- rows
  let drawn = "", whoW = 116;
  function draw() {
    const height = stage.clientHeight, top = Math.max(0, stage.scrollTop);
    const from = clamp(Math.floor(top / ROW) - 8, 0, rows.length), to = clamp(Math.ceil((top + height) / ROW) + 8, 0, rows.length);
    const key = `${from} ${to} ${state.cursor} ${rows.length}`;
    if (key === drawn) return;
    drawn = key;
    view.style.transform = `translateY(${from * ROW}px)`;
    const tied = tiedTo(state.cursor);
    const list = [];
    whoW = whoWidth();
    for (let r = from; r < to; r += 1) list.push(rowElement(rows[r], (r - from) * ROW, tied));
    if (!rows.length) list.push(el("div", { class: "empty" }, "No event passes these filters."));
    view.replaceChildren(...list, picture(from, to, tied));
    drawOverview();
  }

  function tiedTo(number) {
    const tied = new Set((at(number) || {}).b ? at(number).b.map((cause) => cause.event) : []);
    const call = callOf.get(number);
    if (call) [call.q, ...(call.c || []), ...(call.a === undefined ? [] : [call.a])].forEach((part) => tied.add(part));
    tied.delete(number);
    return tied;
  }

  function rowElement(row, y, tied) {
    const place = `top:${y}px`;
    const blank = el("span", { class: "gap", style: `width:${lanesWidth}px` });
    if (row.gap !== undefined) {
      return el("div", { class: "row pause", style: place }, [el("span", { class: "gap", style: `width:${LEFT + lanesWidth}px` }), el("span", { class: "text" }, el("span", {}, `${span(row.gap)} later`))]);
    }
    const number = first + row.event, event = E[row.event];
    if (row.violation) {
      const detail = (row.violation.detail || [])[0] || "";
      const text = `\u2717 ${row.violation.claim}: ${detail}`;
      return el("div", { class: "row violated", style: place, title: [row.violation.claim, ...(row.violation.detail || [])].join("\n"), onclick: () => go(number) },
        [el("span", { class: "gap", style: `width:${LEFT}px` }), blank, el("span", { class: "text" }, text)]);
    }
    const kind = isBad(event) ? "k-bad" : `k-${kindOf(event)}`;
    const marks = ["row", number === state.cursor ? "at" : "", tied.has(number) ? "tied" : ""].join(" ");
    const [whole, part] = clock(event.t).split(".");
    const time = row.fresh ? [el("b", {}, whole), `.${part}`] : "";
    return el("div", { class: marks, style: place, title: event.d || event.x, onclick: () => go(number) }, [
      el("span", { class: "time mono", style: `width:${TIME_W}px` }, time),
      el("span", { class: "no mono", style: `width:${NO_W}px` }, `#${number}`), blank,
      el("span", { class: "text" }, [el("span", { class: "who", style: `width:${whoW}px` }, whose(number)), el("span", { class: kind }, event.x)]),
    ]);
  }

  // What is drawn over the rows from `from` to `to`.
  function picture(from, to, tied) {
    const height = (to - from) * ROW;
    const box = svg(null, "svg", { width: lanesWidth, height, style: `left:${LEFT}px` });
    const y = (row) => (row - from) * ROW, middle = (row) => y(row) + ROW / 2;
    const clip = (low, high) => [clamp(low, -20, height + 20), clamp(high, -20, height + 20)];
    const defs = svg(box, "defs", {});
    const hatch = (id, color) => svg(svg(defs, "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }), "line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: color, "stroke-width": 2 });
    hatch("down", "var(--life)");
    hatch("struck", "var(--fault)");
    const bandOf = (span) => clip(middle(rowOf(span.from)), span.to === undefined ? height + 20 : middle(rowOf(span.to)));
    const inSight = ([low, high]) => high > -20 && low < height + 20 && high - low > 1;

    for (const fault of T.faults) {
      const band = bandOf(fault);
      if (!inSight(band)) continue;
      for (const lane of fault.lanes) svg(box, "rect", { x: lefts[lane] + 1, y: band[0], width: widths[lane] - 2, height: band[1] - band[0], fill: "var(--fault-soft)" });
    }
    lanes.forEach((lane, i) => svg(box, "line", { x1: xOf(i), x2: xOf(i), y1: 0, y2: height, stroke: lane.role === "store" ? "var(--commit)" : "var(--life)", "stroke-width": lane.role === "store" ? 2 : 1, opacity: lane.role === "store" ? 0.55 : 1 }));
    for (const outage of T.outages) {
      const band = bandOf(outage), x = xOf(outage.lane);
      if (!inSight(band)) continue;
      svg(box, "rect", { x: x - 7, y: band[0], width: 14, height: band[1] - band[0], fill: "var(--bg)" });
      svg(box, "rect", { x: x - 6, y: band[0], width: 12, height: band[1] - band[0], fill: "url(#down)", stroke: "var(--faint)", "stroke-dasharray": outage.paused ? "3 3" : null });
      const name = outage.paused ? "paused" : "down";
      if (band[1] - band[0] > 60) label(box, x, clamp((band[0] + band[1]) / 2, 30, height - 30), name, "var(--dim)");
    }
    // What lies in several frames is not redder for it.
    const bands = [...boxes.values()].map((violated) => clip(y(rowOf(violated.from)) + 1, y(endOf(violated.to)) - 1)).filter(inSight);
    const across = { x: gutter - 2, width: lanesWidth - gutter - 2, rx: 6 };
    const joined = [];
    for (const [low, high] of [...bands].sort(([one], [other]) => one - other)) {
      const last = joined[joined.length - 1];
      if (last && low <= last[1]) last[1] = Math.max(last[1], high);
      else joined.push([low, high]);
    }
    for (const [low, high] of joined) svg(box, "rect", { ...across, y: low, height: high - low, fill: "var(--bad-soft)" });
    for (const [low, high] of bands) svg(box, "rect", { ...across, y: low, height: high - low, fill: "none", stroke: "var(--bad)", "stroke-width": 2 });
    for (const call of T.calls) {
      const slot = callSlot.get(call);
      if (slot === undefined || slot > 3 || !(isShown(call.q) || isShown(call.a))) continue;
      const band = [middle(rowOf(call.q)), middle(rowOf(call.a))];
      if (band[1] < -20 || band[0] > height + 20 || band[1] - band[0] < 1) continue;
      const own = tied.has(call.q) || call.q === state.cursor || tied.has(call.a);
      svg(box, "rect", { x: xOf(call.l) - 2.5 + slot * 4, y: clip(band[0], 0)[0], width: 4, height: clip(0, band[1])[1] - clip(band[0], 0)[0], rx: 2, fill: own ? "var(--accent)" : "var(--request)", opacity: own ? 0.85 : 0.32 });
    }
    T.faults.forEach((fault, i) => {
      const band = bandOf(fault), slot = Math.min(faultSlots.of[i], shownSlots - 1), x = 4 + slot * 14 + 6;
      if (!inSight(band)) return;
      svg(box, "rect", { x: x - 5, y: band[0], width: 11, height: band[1] - band[0], rx: 2, fill: "var(--bg)", stroke: "var(--fault)" });
      svg(box, "rect", { x: x - 5, y: band[0], width: 11, height: band[1] - band[0], rx: 2, fill: "url(#struck)", opacity: 0.28 });
      const room = Math.min(band[1], height) - Math.max(band[0], 0);
      const top = Math.max(0, (stage.scrollTop / ROW - from) * ROW), bottom = Math.min(height, top + stage.clientHeight - head());
      const visible = [Math.max(band[0], top), Math.min(band[1], bottom)];
      if (room > fault.name.length * 6.4 + 10) label(box, x + 0.5, clamp((visible[0] + visible[1]) / 2, band[0] + fault.name.length * 3.3 + 4, band[1] - fault.name.length * 3.3 - 4), fault.name, "var(--fault)");
    });
    for (let r = from; r < to; r += 1) if (rows[r].event !== undefined && !rows[r].violation) mark(box, E[rows[r].event], middle(r));
    const cursor = at(state.cursor);
    if (cursor && cursor.l !== undefined && isShown(state.cursor)) {
      const x = xOf(cursor.l), there = middle(rowOf(state.cursor));
      svg(box, "circle", { cx: x, cy: there, r: 8, fill: "none", stroke: "var(--cursor-line)", "stroke-width": 2 });
      for (const cause of cursor.b || []) {
        const other = at(cause.event);
        if (!other || !isShown(cause.event)) continue;
        const from = other.l === undefined ? 10 : xOf(other.l), here = middle(rowOf(cause.event)), bend = from === x ? 26 : 0;
        svg(box, "path", { d: `M${from} ${here}C${from + bend} ${here + (there - here) * 0.4} ${x + bend} ${there - (there - here) * 0.4} ${x} ${there}`, fill: "none", stroke: "var(--accent)", "stroke-width": 1.6, "stroke-dasharray": "5 3" });
        svg(box, "circle", { cx: from, cy: here, r: 6, fill: "none", stroke: "var(--accent)", "stroke-width": 1.6 });
      }
    }
    return box;
  }

  function label(box, x, y, text, color) {
    const length = text.length * 6.1 + 6;
    svg(box, "rect", { x: x - 6, y: y - length / 2, width: 12, height: length, rx: 3, fill: "var(--bg)", opacity: 0.9 });
    svg(box, "text", { x, y, transform: `rotate(-90 ${x} ${y})`, "text-anchor": "middle", dy: "0.34em", fill: color, "font-size": 10.5, "font-weight": 600 }, text);
  }

  function mark(box, event, y) {
    const x = event.l === undefined ? 10 : xOf(event.l), peer = event.p === undefined ? null : xOf(event.p);
    const bad = isBad(event);
    switch (event.k) {
      case "request":
        if (peer !== null) arrow(box, x, peer, y, "var(--request)", { open: true });
        svg(box, "circle", { cx: x, cy: y, r: 3, fill: "var(--request)" });
        break;
      case "answer": {
        const color = bad ? "var(--bad)" : "var(--answer)";
        if (peer !== null) arrow(box, event.e === "lost" ? (x + peer) / 2 : peer, x, y, color, { lost: bad, dash: event.e === "lost" ? "3 3" : null });
        else svg(box, "circle", { cx: x, cy: y, r: 4, fill: color });
        break;
      }
      case "deliver":
        if (peer !== null) arrow(box, peer, x, y, "var(--deliver)", { dash: "4 3" });
        else svg(box, "circle", { cx: x, cy: y, r: 3, fill: "var(--deliver)" });
        break;
      case "commit": {
        svg(box, "line", { x1: x, x2: peer, y1: y, y2: y, stroke: "var(--commit)", "stroke-width": 2 });
        svg(box, "path", { d: diamond(x, y, 5), fill: "var(--commit)" });
        const text = `r${event.r}`, width = Math.min(text.length * 6.6 + 10, STORE_W);
        svg(box, "rect", { x: peer - width / 2, y: y - 8, width, height: 16, rx: 8, fill: "var(--commit)" });
        svg(box, "text", { x: peer, y, dy: "0.35em", "text-anchor": "middle", "font-size": 11, "font-weight": 650, fill: "var(--bg)" }, text);
        break;
      }
      case "note": svg(box, "circle", { cx: x, cy: y, r: 4.5, fill: "var(--note)", stroke: "var(--bg)" }); break;
      case "start": case "resume": svg(box, "path", { d: `M${x - 4} ${y - 5}L${x + 5} ${y}L${x - 4} ${y + 5}Z`, fill: "var(--bg)", stroke: "var(--dim)", "stroke-width": 1.5 }); break;
      case "pause": svg(box, "path", { d: `M${x - 3} ${y - 5}V${y + 5}M${x + 3} ${y - 5}V${y + 5}`, stroke: "var(--dim)", "stroke-width": 3 }); break;
      case "crash": case "panic": svg(box, "path", { d: cross(x, y, 6), stroke: "var(--bad)", "stroke-width": 3, fill: "none" }); break;
      default: {
        const span = T.faults.findIndex((fault) => (event.k === "end" ? fault.to : fault.from) === first + E.indexOf(event));
        const cx = span < 0 ? 10 : 10 + Math.min(faultSlots.of[span], shownSlots - 1) * 14;
        svg(box, "line", { x1: cx, x2: lanesWidth - 8, y1: y, y2: y, stroke: "var(--fault)", "stroke-dasharray": "1 5", opacity: 0.8 });
        if (event.k === "end") svg(box, "path", { d: `M${cx - 6} ${y}H${cx + 6}`, stroke: "var(--fault)", "stroke-width": 3 });
        else svg(box, "path", { d: bolt(cx, y), fill: "var(--fault)", stroke: "var(--bg)" });
      }
    }
  }

  // ----------------------------------------------------------------------------------------------------------- overview
  function drawOverview() {
    const width = overview.clientWidth || 1000, height = 62, base = 34, left = 14, right = width - 14;
    const x = (micros) => overviewX(micros, left, right);
    overview.replaceChildren();
    overview.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const bins = new Array(Math.max(40, Math.floor((right - left) / 5))).fill(0);
    for (const event of E) bins[Math.min(bins.length - 1, Math.floor(((x(event.t) - left) / (right - left)) * bins.length))] += 1;
    const most = Math.max(...bins), each = (right - left) / bins.length;
    if (T.healed_s !== undefined) {
      svg(overview, "rect", { x: x(T.healed_s * 1e6), y: 4, width: right - x(T.healed_s * 1e6), height: base - 4, fill: "var(--note)", opacity: 0.08 });
      const late = x(T.healed_s * 1e6) > right - 60;
      svg(overview, "text", { x: x(T.healed_s * 1e6) + (late ? -4 : 4), y: 13, "text-anchor": late ? "end" : "start" }, "healed");
    }
    bins.forEach((many, i) => {
      const tall = many && Math.max(2, Math.sqrt(many / most) * (base - 10));
      if (many) svg(overview, "rect", { x: left + i * each, y: base - tall, width: Math.max(1, each - 1), height: tall, fill: "var(--request)", opacity: 0.65 });
    });
    svg(overview, "line", { x1: left, x2: right, y1: base + 0.5, y2: base + 0.5, stroke: "var(--faint)" });
    T.faults.forEach((fault, i) => {
      const start = x(at(fault.from) ? at(fault.from).t : 0), stop = x(fault.to !== undefined && at(fault.to) ? at(fault.to).t : fault.to === undefined ? end : E[E.length - 1].t);
      svg(svg(overview, "rect", { x: start, y: base + 2 + (Math.min(faultSlots.of[i], 3) * 3), width: Math.max(2, stop - start), height: 2.5, fill: "var(--fault)" }), "title", {}, fault.name);
    });
    for (const [low, high] of pieces) {
      const step = niceStep(high - low, (x(high) - x(low)) / 110);
      for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) {
        if (low > 0 && x(tick) - x(low) < 46) continue;
        if (low === 0 && high < end && x(high) - x(tick) < 34 && tick < high) continue;
        const near = x(tick) > right - 24;
        svg(overview, "line", { x1: x(tick), x2: x(tick), y1: base, y2: base + 4, stroke: "var(--faint)" });
        svg(overview, "text", { x: x(tick), y: height - 3, "text-anchor": tick === 0 ? "start" : near ? "end" : "middle" }, tick === 0 ? "0" : span(tick));
      }
    }
    const low = rows.slice(clamp(Math.floor(stage.scrollTop / ROW), 0, rows.length)).find((row) => row.event !== undefined);
    const high = rows.slice(0, clamp(Math.ceil((stage.scrollTop + stage.clientHeight - head()) / ROW), 0, rows.length)).reverse().find((row) => row.event !== undefined);
    if (low && high) svg(overview, "rect", { x: x(E[low.event].t) - 3, y: 3, width: Math.max(6, x(E[high.event].t) - x(E[low.event].t) + 6), height: base - 2, rx: 3, fill: "var(--accent-soft)", stroke: "var(--accent)" });
    for (const violated of boxes.values()) {
      const here = x(at(violated.to).t);
      svg(overview, "line", { x1: here, x2: here, y1: 8, y2: base, stroke: "var(--bad)", "stroke-width": 2 });
      svg(overview, "path", { d: `M${here - 5} 2H${here + 5}L${here} 10Z`, fill: "var(--bad)" });
    }
    if (at(state.cursor)) svg(overview, "line", { x1: x(at(state.cursor).t), x2: x(at(state.cursor).t), y1: 1, y2: base + 14, stroke: "var(--cursor-line)", "stroke-width": 2 });
  }
  // The quiet time after the faults healed is often the longest by far: it gets half of the width at most.
  const healed = T.healed_s === undefined ? 0 : T.healed_s * 1e6;
  const pieces = healed > 0 && healed < end * 0.4 ? [[0, healed, 0, 0.6], [healed, end, 0.6, 1]] : [[0, end, 0, 1]];
  function overviewX(micros, left, right) {
    const [low, high, start, stop] = pieces.find((piece) => micros <= piece[1]) || pieces[pieces.length - 1];
    return left + (start + ((clamp(micros, low, high) - low) / (high - low)) * (stop - start)) * (right - left);
  }
  function niceStep(whole, most) {
    const raw = whole / Math.max(1, most), ten = 10 ** Math.floor(Math.log10(raw));
    const steps = raw >= 6e7 ? [6e7, 12e7, 3e8, 6e8, 12e8, 36e8, 72e8, 144e8] : [1, 2, 5, 10].map((n) => n * ten);
    return steps.find((step) => step >= raw) || steps[steps.length - 1];
  }
  overview.addEventListener("click", (click) => {
    const frame = overview.getBoundingClientRect(), there = click.clientX - frame.left;
    const off = (row) => Math.abs(overviewX(E[row.event].t, 14, frame.width - 14) - there);
    const shown = rows.filter((row) => row.event !== undefined && !row.violation);
    if (shown.length) go(first + shown.reduce((best, row) => (off(row) < off(best) ? row : best)).event, true);
  });

  // ---------------------------------------------------------------------------------------------------------- beside it
  function stateOf(object, number) {
    const fields = new Map();
    let version = null, changed = [], removed = [];
    for (const next of object.versions) {
      if (next.n !== undefined && next.n > number) break;
      version = next;
      changed = []; removed = [];
      for (const name of next.del || []) { removed.push([name, fields.get(name)]); fields.delete(name); }
      for (const [name, value] of next.set || []) { changed.push([name, fields.get(name)]); fields.set(name, value); }
    }
    const now = version !== null && version.n === number;
    const order = (name) => (name === "version" ? 0 : name === "list" ? 2 : 1);
    const lines = [...fields, ...(now ? removed.map(([name, value]) => [name, value === undefined ? "" : value, true]) : [])].sort(([a], [b]) => order(a) - order(b) || (a < b ? -1 : a > b ? 1 : 0));
    return { version, lines, now, changed: new Map(changed) };
  }

  const leap = (number) => el("button", { class: "mono", onclick: () => go(number, true) }, `#${number}`);

  function objectCard(object, number) {
    const { version, lines, now, changed } = stateOf(object, number);
    if (version === null) return null;
    const body = el("table", {}, el("tbody", {}));
    // A long name stands above its value; where it comes from is cut to what tells it from others.
    const short = (name) => name.replace(/^spec\.template\.(?:metadata\.|spec\.)?/, "\u2026");
    const line = (name, value, mark) => body.firstChild.append(
      el("tr", { class: short(name).length > (aside.clientWidth < 330 ? 14 : 20) ? `${mark} long` : mark }, [el("td", { title: name }, short(name)), el("td", {}, value)]));
    for (const [name, value, gone] of lines) {
      if (!gone && now && changed.get(name) !== undefined) line(name, changed.get(name), "old");
      line(name, value, gone ? "old" : now && changed.has(name) ? "new" : "");
    }
    const title = [el("span", { class: "kind" }, object.kind), el("b", { title: `${object.namespace}/${object.name}` }, object.name)];
    const origin = version.n === undefined ? [el("button", { disabled: "" }, `r${version.r}`)] : [el("button", { title: "where it was written", onclick: () => go(version.n, true) }, `${version.gone ? "gone at " : ""}r${version.r}`)];
    return el("section", { class: `object${now ? " now" : ""}${version.gone ? " gone" : ""}` }, [el("div", {}, [...title, ...origin]), body]);
  }

  function drawAside() {
    const event = at(state.cursor), parts = [];
    if (event) {
      parts.push(el("h2", {}, `#${state.cursor} at ${clock(event.t)} s, ${laneName(event)}`), el("div", { class: "said" }, event.x));
      if (event.d) parts.push(el("div", { class: "detail" }, event.d));
      for (const violation of violatedAt.get(state.cursor) || []) {
        const [said, ...rest] = violation.detail || [];
        parts.push(el("details", { class: "claim" }, [
          el("summary", {}, [el("b", {}, `\u2717 ${violation.claim}${violation.excuse ? ` (excused by ${violation.excuse})` : ""}`), el("br", {}), said || ""]),
          ...rest.map((line) => el("p", {}, line)), violation.needs ? el("p", {}, `needs ${violation.needs}`) : null]));
      }
    }
    const ranked = T.objects.map((object, i) => {
      const last = object.versions.filter((version) => version.n === undefined || version.n <= state.cursor).pop();
      const pool = object.versions.some((version) => (version.set || []).some(([name]) => name === "list"));
      return last && { object, rank: (event && event.o === i ? 4e9 : 0) + (pool ? 2e9 : 0) + (last.gone ? -1e9 : 0) + (last.n === undefined ? -1 : last.n) };
    }).filter(Boolean).sort((a, b) => b.rank - a.rank);
    parts.push(el("h2", {}, `State at #${state.cursor}`));
    if (!ranked.length) parts.push(el("div", { class: "detail" }, "Nothing was written yet."));
    for (const { object } of ranked.slice(0, 4)) parts.push(objectCard(object, state.cursor));
    if (ranked.length > 4) {
      const more = el("details", { ontoggle: () => { if (more.open && more.childElementCount === 1) for (const { object } of ranked.slice(4, 204)) more.append(objectCard(object, state.cursor)); } },
        el("summary", {}, ranked.length === 5 ? "1 more object" : `${ranked.length - 4} more objects`));
      parts.push(more);
    }
    if (event) {
      const told = (number, how) => el("li", {}, [leap(number), el("span", { title: at(number) ? at(number).x : "" }, [how, at(number) ? `${how ? ": " : ""}${at(number).x}` : ""])]);
      if (event.b && event.b.length) parts.push(el("h2", {}, "Came of"), el("ul", {}, event.b.map((cause) => told(cause.event, cause.how.replace(/ (in|since)$/, "")))));
      const later = effects.get(state.cursor) || [];
      if (later.length) parts.push(el("h2", {}, "Led to"), el("ul", {}, later.slice(0, 8).map((number) => told(number, whose(number)))));
      if (later.length > 8) parts.push(el("div", { class: "detail" }, `and ${later.length - 8} more`));
    }
    const keys = [["\u2191 \u2193", "move"], ["[ ]", "in its lane"], ["v", "violation"], ["c", "causes"], ["/", "filter"], ["t", "theme"]];
    parts.push(el("p", { class: "keys" }, keys.map(([key, does]) => el("span", {}, [el("kbd", {}, key), ` ${does}`]))));
    aside.replaceChildren(...parts.filter(Boolean));
  }

  // ------------------------------------------------------------------------------------------------------------- moving
  function go(number, center) {
    state.cursor = number;
    const row = rowOf(number), top = row * ROW, height = stage.clientHeight - head();
    if (center || top < stage.scrollTop || top > stage.scrollTop + height - 2 * ROW) {
      stage.scrollTop = center ? top - height / 2 : top < stage.scrollTop ? top - ROW : top - height + 3 * ROW;
    }
    drawn = "";
    draw();
    drawAside();
    keepLink();
  }

  // --------------------------------------------------------------------------------------------------------------- link
  // The address names the event at the cursor and the filters: who is given it sees the same.
  function keepLink() {
    const parts = [String(state.cursor)];
    const add = (name, value) => value !== null && value !== "" && parts.push(`${name}=${encodeURIComponent(value)}`);
    add("text", state.text);
    add("hide", [...state.hidden].sort().join(","));
    add("lane", state.lane === null ? null : lanes[state.lane].name);
    add("object", state.object);
    if (state.followed) parts.push("followed");
    if (state.chain) parts.push("causes");
    try { history.replaceState(null, "", `#${parts.join("&")}`); } catch { /* Some places do not let a page change its address. */ }
  }
  function resetFilters() {
    Object.assign(state, { text: "", hidden: new Set(), lane: null, object: null, followed: false, chain: null });
    search.value = "";
  }
  function takeLink() {
    const [number, ...parts] = location.hash.slice(1).split("&");
    if (/^\d+$/.test(number) && at(Number(number))) state.cursor = Number(number);
    const value = (text) => { try { return decodeURIComponent(text); } catch { return ""; } };
    for (const [name, text] of parts.map((part) => part.split("="))) {
      const said = value(text || "");
      if (name === "text") state.text = search.value = said.toLowerCase();
      if (name === "hide") said.split(",").filter((kind) => toggles.has(kind)).forEach((kind) => state.hidden.add(kind));
      if (name === "lane" && lanes.some((lane) => lane.name === said)) state.lane = lanes.findIndex((lane) => lane.name === said);
      if (name === "object" && T.objects[Number(said)]) state.object = Number(said);
      if (name === "followed" && T.followed) state.followed = true;
      if (name === "causes") state.chain = chainOf(state.cursor);
    }
    for (const [kind, button] of toggles) button.setAttribute("aria-pressed", String(!state.hidden.has(kind)));
    for (const [name, button] of pressed) button.setAttribute("aria-pressed", String(Boolean(state[name])));
    objects.value = state.object === null ? "" : String(state.object);
  }
  function step(by, same) {
    let row = rowOf(state.cursor);
    const lane = same && at(state.cursor) ? at(state.cursor).l : undefined;
    const isStop = (candidate) => candidate && candidate.event !== undefined && !candidate.violation && (lane === undefined || E[candidate.event].l === lane);
    const sign = Math.sign(by);
    for (let left = Math.abs(by), last = row; left > 0; left -= 1, last = row) {
      do row += sign; while (rows[row] && !isStop(rows[row]));
      if (!rows[row]) { row = last; break; }
    }
    if (rows[row] && rows[row].event !== undefined) go(first + rows[row].event);
  }
  function refilter() {
    filter();
    go(state.cursor, true);
  }
  function toggleTheme() {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("ipam-sim-theme", theme); } catch { /* A file without storage forgets. */ }
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const remembered = () => { try { return localStorage.getItem("ipam-sim-theme"); } catch { return null; } };
  const setTheme = () => { document.documentElement.dataset.theme = remembered() || (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", setTheme);
  setTheme();

  document.addEventListener("keydown", (key) => {
    if (key.target === search || key.target.tagName === "SELECT") {
      if (key.key === "Escape") { search.value = ""; state.text = ""; refilter(); stage.focus(); }
      return;
    }
    if (key.ctrlKey || key.metaKey || key.altKey) return;
    const page = Math.max(1, Math.floor((stage.clientHeight - head()) / ROW) - 2);
    const jump = (forward) => {
      const stops = [...new Set(T.violations.map((violation) => violation.to))].sort((a, b) => a - b);
      const next = forward ? stops.find((number) => number > state.cursor) : stops.reverse().find((number) => number < state.cursor);
      if (stops.length) go(next === undefined ? stops[0] : next, true);
    };
    const actions = {
      ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1),
      PageDown: () => step(page), PageUp: () => step(-page), Home: () => step(-rows.length), End: () => step(rows.length),
      "]": () => step(1, true), "[": () => step(-1, true), v: () => jump(true), V: () => jump(false),
      "/": () => search.focus(), t: toggleTheme, c: () => document.getElementById("chain").click(),
    };
    if (actions[key.key]) { key.preventDefault(); actions[key.key](); }
  });

  canvas.append(view);
  stage.append(canvas);
  document.getElementById("app").append(header(), overview, tools(), stage, aside);
  function arrange() {
    layout();
    const old = document.getElementById("heads");
    if (old) old.remove();
    stage.prepend(heads());
    drawn = "";
  }
  takeLink();
  arrange();
  stage.addEventListener("scroll", () => requestAnimationFrame(draw));
  addEventListener("resize", () => { arrange(); draw(); });
  filter();
  addEventListener("hashchange", () => { resetFilters(); takeLink(); arrange(); refilter(); });
  go(state.cursor, true);
  stage.focus({ preventScroll: true });
})();
