// Moving the cursor, and the keys that do.

function go(number, center) {
  state.cursor = number;
  const row = rowOf(number), top = row * ROW, height = stage.clientHeight - headHeight;
  if (center || top < stage.scrollTop || top > stage.scrollTop + height - 2 * ROW) {
    stage.scrollTop = center ? top - height / 2 : top < stage.scrollTop ? top - ROW : top - height + 3 * ROW;
  }
  drawn = "";
  draw();
  drawAside();
  keepLink();
}
function step(by, same) {
  // Where the event is hidden, this is the row after it.
  let row = rowOf(state.cursor) - (by > 0 && !isShown(state.cursor) ? 1 : 0);
  const lane = same && at(state.cursor) ? at(state.cursor).l : undefined;
  const isStop = (candidate) => candidate && candidate.event !== undefined && !candidate.told && (lane === undefined || E[candidate.event].l === lane);
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

document.addEventListener("keydown", (key) => {
  if (key.target === search || key.target.tagName === "SELECT") {
    if (key.key === "Escape") { search.value = state.text = ""; refilter(); stage.focus(); }
    if (key.key === "Enter" && key.target === search) {
      if (!isShown(state.cursor)) step(1);
      stage.focus();
    }
    return;
  }
  if (key.ctrlKey || key.metaKey || key.altKey) return;
  const page = Math.max(1, Math.floor((stage.clientHeight - headHeight) / ROW) - 2);
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
