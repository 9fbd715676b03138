// What stands above all: the verdict, the claims, where the run comes from.

function header() {
  const failed = T.violations.filter((violation) => !violation.excuse);
  // One button a claim, however often it was violated; pressed again it leads to the next time.
  const byClaim = new Map();
  for (const violation of [...boxes.values()].flatMap((box) => box.violations)) {
    const key = `${violation.claim} ${violation.excuse || ""}`;
    if (!byClaim.has(key)) byClaim.set(key, []);
    byClaim.get(key).push(violation);
  }
  const jumps = [...byClaim.values()].map((times) => {
    const [violation] = times, more = times.length > 1 ? ` \u00d7${times.length}` : "";
    const title = [...new Set(times.map((one) => [seconds(one.at_s), ...(one.detail || []).slice(0, 2)].join("  ")))].join("\n");
    const next = () => (times.find((one) => one.to > state.cursor) || violation).to;
    return el("button", { class: violation.excuse ? "jump excused" : "jump", title, onclick: () => go(next(), true) },
      `\u2717 ${violation.claim}  ${seconds(violation.at_s)}${more}${violation.excuse ? " (excused)" : ""}`);
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
  const worded = (fault) => fault.replace(/^(crash-at-write\(.*\)) (\d+)$/, (_, what, nth) => `${what} at its ${ordinal(nth)} write`);
  const listed = (names) => names.length ? names.join(", ") : "none";
  return el("details", { class: "provenance" }, [
    el("summary", {}, "where it comes from"),
    el("dl", {}, [
      ...row("replay", el("code", {}, from.replay)),
      ...row("profile", from.profile + ((from.without || []).length ? ` without ${from.without.join(", ")}` : "")),
      ...row("mutations", listed([...(from.profile === "upstream" ? ["all of upstream"] : []), ...(from.mutations || [])])),
      ...row("faults", (from.faults || []).length ? el("ul", {}, from.faults.map((fault) => el("li", {}, worded(fault)))) : "none"),
      ...(from.shrunk_from ? row("shrunk from", el("code", {}, from.shrunk_from)) : []),
      // The name of a build usually begins with the version.
      ...row("version", from.build.startsWith(from.version) ? from.build : `${from.version}, build ${from.build}`),
      ...row("digest", el("code", {}, T.digest)),
    ]),
  ]);
}
