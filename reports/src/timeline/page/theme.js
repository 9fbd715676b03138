// Light or dark.

function toggleTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("ipam-sim-theme", theme); } catch { /* A file without storage forgets. */ }
}
const dark = matchMedia("(prefers-color-scheme: dark)");
const remembered = () => { try { return localStorage.getItem("ipam-sim-theme"); } catch { return null; } };
const setTheme = () => { document.documentElement.dataset.theme = remembered() || (dark.matches ? "dark" : "light"); };
dark.addEventListener("change", setTheme);
setTheme();
