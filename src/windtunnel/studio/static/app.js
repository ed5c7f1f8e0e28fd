// The shell: navigation, theme, and which page is shown. A page is a module with `title` and `show(at, words)`.
import { h, fill } from "./dom.js";
import { keep, restore, take, START } from "./state.js";
import { unpacked } from "./share.js";
import { openable } from "./origin.js";

const PAGES = { "": "Home", scenario: "Scenario", timeline: "Timeline", memory: "Memory", compare: "Compare", search: "Search", serving: "Serving", run: "Run", learning: "Learning", reason: "Reason", advice: "Advice", report: "Report", sweeps: "Sweeps", catalogue: "Catalogue", export: "Export" };
let leave = () => {}, turn = 0;
restore();
window.addEventListener("pagehide", keep);

async function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = path.split("/")[0] in PAGES ? path.split("/")[0] : "";
  const words = new URLSearchParams(query || "");
  if (words.get("s")) { try { take(await unpacked(words.get("s") || "")); } catch { take(START); } words.delete("s"); history.replaceState(null, "", `#/${name}${words.size ? `?${words}` : ""}`); }
  fill(document.getElementById("nav"), Object.entries(PAGES).map(([id, title]) => h("a", { href: `#/${id}`, "aria-current": id === name ? "page" : undefined }, title)));
  leave(); leave = () => {};
  const mine = ++turn, page = await import(`./pages/${name || "home"}.js`);
  if (mine !== turn) return;
  document.title = `${page.title} · Windtunnel`;
  const at = h("div", {});  // a page that answers late writes into its own room, not over the next page
  fill(document.getElementById("page"), at);
  const left = (await page.show(at, words)) || (() => {});
  if (mine === turn) leave = left; else left();
}

const root = document.documentElement, button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
function theme() {
  button.textContent = dark() ? "Light" : "Dark";
  for (const frame of document.querySelectorAll("iframe")) { const at = frame.getAttribute("src").replace(/theme=\w+/, `theme=${dark() ? "dark" : "light"}`); if (at !== frame.getAttribute("src")) frame.setAttribute("src", at); }
}
const kept = localStorage.getItem("windtunnel-theme");
if (kept === "dark" || kept === "light") root.dataset.theme = kept;
button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; localStorage.setItem("windtunnel-theme", root.dataset.theme); theme(); });
system.addEventListener("change", theme);
theme();
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); document.getElementById("page").focus(); });
openable(document.getElementById("page"));
const dialog = document.getElementById("origin");
dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
window.addEventListener("hashchange", () => { dialog.close(); route(); });
route();
