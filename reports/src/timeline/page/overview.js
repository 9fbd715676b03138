// The whole run by time.

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
  const high = rows.slice(0, clamp(Math.ceil((stage.scrollTop + stage.clientHeight - headHeight) / ROW), 0, rows.length)).reverse().find((row) => row.event !== undefined);
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
  const shown = rows.filter((row) => row.event !== undefined && !row.told);
  if (shown.length) go(first + shown.reduce((best, row) => (off(row) < off(best) ? row : best)).event, true);
});
