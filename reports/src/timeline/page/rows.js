// The list of events: the names above it and the rows in sight.

function heads() {
  const names = el("div", { class: "names", style: `width:${lanesWidth}px;height:${headHeight}px` });
  if (T.faults.length) names.append(el("span", { class: "faults", style: `left:${gutter / 2 - 8}px` }, "faults"));
  lanes.forEach((lane, i) => {
    const quiet = busy.has(i) ? "" : " quiet", width = Math.min(16, widths[i]);
    const button = el("button", { class: lane.role + quiet, style: `left:${xOf(i) - width / 2}px;width:${width}px;max-height:${headHeight - 12}px`, "aria-pressed": String(state.lane === i), title: `${lane.name}: only this one`, onclick: () => {
      state.lane = state.lane === i ? null : i;
      showFilters();
      refilter();
    } }, lane.name);
    names.append(button);
  });
  return el("div", { id: "heads" }, [
    el("span", { class: "when", style: `width:${TIME_W}px` }, "seconds"), el("span", { class: "when", style: `width:${NO_W}px` }, "event"), names,
    el("span", { class: "what" }, "what happened"),
  ]);
}

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
  view.replaceChildren(...list, ...(lanesWidth ? [picture(from, to, tied)] : []));
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
  const time = (micros) => {
    const [whole, part] = clock(micros).split(".");
    return el("span", { class: "time mono", style: `width:${TIME_W}px` }, row.fresh ? [el("b", {}, whole), `.${part}`] : "");
  };
  if (row.told) {
    const { violation } = row.told, [said = ""] = violation.detail || [];
    return el("div", { class: "row violated", style: place, title: row.told.text, onclick: () => go(number) },
      [time(row.told.at), el("span", { class: "gap", style: `width:${NO_W}px` }), blank, el("span", { class: "text" }, `${claimOf(row.told)}: ${said}`)]);
  }
  const kind = isBad(event) ? "k-bad" : `k-${kindOf(event)}`;
  const marks = ["row", number === state.cursor ? "at" : "", tied.has(number) ? "tied" : ""].join(" ");
  return el("div", { class: marks, style: place, title: event.d || event.x, onclick: () => go(number) }, [
    time(event.t), el("span", { class: "no mono", style: `width:${NO_W}px` }, `#${number}`), blank,
    el("span", { class: "text" }, [el("span", { class: "who", style: `width:${whoW}px` }, whose(number)), el("span", { class: kind }, event.x)]),
  ]);
}
