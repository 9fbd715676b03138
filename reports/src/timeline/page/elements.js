// Elements of HTML and of SVG, and the shapes that are drawn. Texts of the run go into the page as text, never as markup.

const NS = "http://www.w3.org/2000/svg";
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

const diamond = (x, y, r) => `M${x - r} ${y}L${x} ${y - r}L${x + r} ${y}L${x} ${y + r}Z`;
const cross = (x, y, r) => `M${x - r} ${y - r}L${x + r} ${y + r}M${x + r} ${y - r}L${x - r} ${y + r}`;
const bolt = (x, y) => `M${x + 2} ${y - 7}L${x - 4} ${y + 1}H${x}L${x - 2} ${y + 7}L${x + 4} ${y - 2}H${x}Z`;
function arrow(parent, from, to, y, color, { dash, open, lost }) {
  const sign = to > from ? 1 : -1, tip = to - sign * 5;
  svg(parent, "line", { x1: from, x2: tip, y1: y, y2: y, stroke: color, "stroke-width": 1.5, "stroke-dasharray": dash });
  if (lost) return svg(parent, "path", { d: cross(to, y, 4), stroke: color, "stroke-width": 2, fill: "none" });
  return svg(parent, "path", { d: `M${to} ${y}L${to - sign * 7} ${y - 4}V${y + 4}Z`, fill: open ? "var(--bg)" : color, stroke: color, "stroke-width": 1.3, "stroke-linejoin": "round" });
}

function label(box, x, y, text, color) {
  const length = text.length * 6.1 + 6;
  svg(box, "rect", { x: x - 6, y: y - length / 2, width: 12, height: length, rx: 3, fill: "var(--bg)", opacity: 0.9 });
  svg(box, "text", { x, y, transform: `rotate(-90 ${x} ${y})`, "text-anchor": "middle", dy: "0.34em", fill: color, "font-size": 10.5, "font-weight": 600 }, text);
}

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
