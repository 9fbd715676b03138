// Puts the page together and shows what its address names.

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
