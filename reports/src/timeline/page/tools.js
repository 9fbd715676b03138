// The filters.

const clear = el("button", { id: "clear", title: "show every event", onclick: () => { resetFilters(); showFilters(); refilter(); stage.focus(); } }, "\u2715 all filters");
const count = el("span", { class: "count" });
const search = el("input", { type: "search", placeholder: "filter: text, process, #number", "aria-label": "filter", oninput: () => { state.text = search.value.trim(); refilter(); } });

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
  const chain = only(CAUSES, "only the event at the cursor and its causes (c)", () => {
    showCauses(state.chain ? null : state.cursor);
    return Boolean(state.chain);
  });
  chain.id = "chain";
  pressed.set("chain", chain);
  if (followed) pressed.set("followed", followed);
  return el("div", { class: "tools", role: "toolbar" }, [search, ...kinds, objects, followed, chain, clear, count]);
}

const CAUSES = "only its causes";
function showCauses(number) {
  state.chainOf = number;
  state.chain = number === null ? null : causesOf(number);
  document.getElementById("chain").textContent = number === null ? CAUSES : `only the causes of #${number}`;
}

// Brings what shows the filters in line with the state.
function showFilters() {
  search.value = state.text;
  objects.value = state.object === null ? "" : String(state.object);
  for (const [kind, button] of toggles) button.setAttribute("aria-pressed", String(!state.hidden.has(kind)));
  for (const [name, button] of pressed) button.setAttribute("aria-pressed", String(Boolean(state[name])));
  document.querySelectorAll("#heads .names button").forEach((button, i) => button.setAttribute("aria-pressed", String(i === state.lane)));
}
