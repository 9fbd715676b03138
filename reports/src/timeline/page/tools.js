// The filters.

const count = el("span", { class: "count" });
const search = el("input", { type: "search", placeholder: "filter: text, process, #number", "aria-label": "filter", oninput: () => { state.text = search.value.trim().toLowerCase(); refilter(); } });

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
