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
  const bands = [...boxes.values()].filter(isTold).map((violated) => clip(y(rowOf(violated.from)) + 1, y(endOf(violated.to)) - 1)).filter(inSight);
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
    const top = Math.max(0, (stage.scrollTop / ROW - from) * ROW), bottom = Math.min(height, top + stage.clientHeight - headHeight);
    const visible = [Math.max(band[0], top), Math.min(band[1], bottom)];
    if (room > fault.name.length * 6.4 + 10) label(box, x + 0.5, clamp((visible[0] + visible[1]) / 2, band[0] + fault.name.length * 3.3 + 4, band[1] - fault.name.length * 3.3 - 4), fault.name, "var(--fault)");
  });
  for (let r = from; r < to; r += 1) if (rows[r].event !== undefined && !rows[r].told) mark(box, E[rows[r].event], middle(r));
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
