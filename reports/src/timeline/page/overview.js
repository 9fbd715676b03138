// The whole run by time.

function drawOverview() {
  const width = overview.clientWidth || 1000, height = 62, base = 34, left = 14, right = width - 14;
  const x = (micros) => overviewX(micros, left, right);
  overview.replaceChildren();
  overview.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const bins = new Array(Math.max(40, Math.floor((right - left) / 5))).fill(0);
  for (const event of E) bins[Math.min(bins.length - 1, Math.floor(((x(event.t) - left) / (right - left)) * bins.length))] += 1;
  const most = Math.max(...bins), each = (right - left) / bins.length;
  if (healed) svg(overview, "rect", { x: x(healed), y: 4, width: right - x(healed), height: base - 4, fill: "var(--note)", opacity: 0.08 });
  // Where there are no events because the page has none is not where nothing happened.
  const pattern = svg(svg(overview, "defs", {}), "pattern", { id: "absent", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  svg(pattern, "line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: "var(--faint)", "stroke-width": 1.5 });
  const absent = (from, to) => svg(svg(overview, "rect", { class: "absent", x: from, y: 4, width: Math.max(0, to - from), height: base - 4, fill: "url(#absent)" }), "title", {}, "not on this page");
  if (first > 0 && E.length) absent(left, x(E[0].t));
  if (first + E.length < T.total && E.length) absent(x(E[E.length - 1].t), right);
  bins.forEach((many, i) => {
    const tall = many && Math.max(2, Math.sqrt(many / most) * (base - 10));
    if (many) svg(overview, "rect", { x: left + i * each, y: base - tall, width: Math.max(1, each - 1), height: tall, fill: "var(--request)", opacity: 0.65 });
  });
  svg(overview, "line", { x1: left, x2: right, y1: base + 0.5, y2: base + 0.5, stroke: "var(--faint)" });
  if (healed) healMark(x(healed), right, base);
  T.faults.forEach((fault, i) => {
    const start = x(at(fault.from) ? at(fault.from).t : 0), stop = x(fault.to !== undefined && at(fault.to) ? at(fault.to).t : fault.to === undefined ? end : E[E.length - 1].t);
    svg(svg(overview, "rect", { x: start, y: base + 2 + (Math.min(faultSlots.of[i], 3) * 3), width: Math.max(2, stop - start), height: 2.5, fill: "var(--fault)" }), "title", {}, fault.name);
  });
  const tick = (micros) => {
    svg(overview, "line", { x1: x(micros), x2: x(micros), y1: base, y2: base + 4, stroke: "var(--faint)" });
    const anchor = micros === 0 ? "start" : x(micros) > right - 24 ? "end" : "middle";
    svg(overview, "text", { x: x(micros), y: height - 3, "text-anchor": anchor }, micros === 0 ? "0" : micros < 60e6 ? span(micros) : minutes(micros));
  };
  if (healed) tick(healed);
  for (const [low, high] of pieces) {
    const step = niceStep(high - low, (x(high) - x(low)) / 110);
    for (let micros = Math.ceil(low / step) * step; micros <= high; micros += step) if (!healed || Math.abs(x(micros) - x(healed)) > 56) tick(micros);
  }
  const low = rows.slice(clamp(Math.floor(stage.scrollTop / ROW), 0, rows.length)).find((row) => row.event !== undefined);
  const high = rows.slice(0, clamp(Math.ceil((stage.scrollTop + stage.clientHeight - headHeight) / ROW), 0, rows.length)).reverse().find((row) => row.event !== undefined);
  if (low && high) svg(overview, "rect", { x: x(timeOf(low)) - 3, y: 3, width: Math.max(6, x(timeOf(high)) - x(timeOf(low)) + 6), height: base - 2, rx: 3, fill: "var(--accent-soft)", stroke: "var(--accent)" });
  for (const at_s of new Set(T.violations.map((violation) => violation.at_s))) {
    const here = x(at_s * 1e6);
    svg(overview, "line", { x1: here, x2: here, y1: 8, y2: base, stroke: "var(--bad)", "stroke-width": 2 });
    svg(overview, "path", { d: `M${here - 5} 2H${here + 5}L${here} 10Z`, fill: "var(--bad)" });
  }
  if (at(state.cursor)) svg(overview, "line", { x1: x(at(state.cursor).t), x2: x(at(state.cursor).t), y1: 1, y2: base + 14, stroke: "var(--cursor-line)", "stroke-width": 2 });
}
const timeOf = (row) => (row.told ? row.told.at : E[row.event].t);

// The time after the faults healed is often the longest by far: then it has two fifths of the width.
const healed = T.healed_s === undefined ? 0 : T.healed_s * 1e6;
const pieces = healed > 0 && healed < end * 0.4 ? [[0, healed, 0, 0.6], [healed, end, 0.6, 1]] : [[0, end, 0, 1]];
function overviewX(micros, left, right) {
  const [low, high, start, stop] = pieces.find((piece) => micros <= piece[1]) || pieces[pieces.length - 1];
  return left + (start + ((clamp(micros, low, high) - low) / (high - low)) * (stop - start)) * (right - left);
}
// When the faults healed, and how many times smaller the scale is from there on.
function healMark(here, right, base) {
  const mark = svg(overview, "g", { class: "healed" });
  svg(mark, "line", { x1: here, x2: here, y1: 2, y2: base, stroke: "var(--dim)", "stroke-dasharray": "3 2" });
  let said = "healed", title = `The faults healed at ${span(healed)}.`;
  if (pieces.length > 1) {
    const scale = ([low, high, start, stop]) => (stop - start) / (high - low), part = `1/${Math.round(scale(pieces[0]) / scale(pieces[1]))}`;
    said = right - here > 210 ? `healed; ${part} of the scale from here` : `healed; ${part} scale`;
    title += ` What follows is drawn at ${part} of the scale.`;
    svg(mark, "path", { d: `M${here - 5} ${base + 4}L${here - 1} ${base - 4}M${here} ${base + 4}L${here + 4} ${base - 4}`, stroke: "var(--dim)", "stroke-width": 1.5 });
  }
  const late = right - here < said.length * 5.6;
  svg(mark, "text", { x: here + (late ? -4 : 4), y: 13, "text-anchor": late ? "end" : "start" }, said);
  svg(mark, "title", {}, title);
}

// Steps that clocks have: from one second on those of seconds, minutes and hours.
function niceStep(whole, most) {
  const raw = whole / Math.max(1, most), ten = 10 ** Math.floor(Math.log10(raw));
  const steps = raw > 5e5 ? [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400].map((n) => n * 1e6) : [1, 2, 5, 10].map((n) => n * ten);
  return steps.find((step) => step >= raw) || steps[steps.length - 1];
}
overview.addEventListener("click", (click) => {
  const frame = overview.getBoundingClientRect(), there = click.clientX - frame.left;
  const off = (row) => Math.abs(overviewX(timeOf(row), 14, frame.width - 14) - there);
  const shown = rows.filter((row) => row.event !== undefined);
  if (shown.length) go(first + shown.reduce((best, row) => (off(row) < off(best) ? row : best)).event, true);
});
