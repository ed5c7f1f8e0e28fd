// The shell: navigation, theme, and which page is shown. A page is a module with `title` and `show(at, words)`.
import { h, fill } from "./dom.js";
import { keep, restore, state, kinds } from "./state.js";
import { openable } from "./origin.js";

/** Group → pages: title, and the commands whose scenarios have them (none: all). @type {Record<string, Record<string, [string, string[]?]>>} */
const GROUPS = {
  Scenario: { "": ["Home"], scenario: ["Scenario"] },
  Results: { timeline: ["Timeline", ["train"]], memory: ["Memory", ["train"]], serving: ["Serving", ["serve"]], run: ["Run", ["run"]], learning: ["Learning", ["learn"]], reason: ["Reason", ["reason"]], report: ["Report", ["train", "serve", "run", "cluster", "learn", "reason"]] },
  Decide: { search: ["Search", ["train", "serve"]], advice: ["Advice", ["train", "serve"]], compare: ["Compare"], sweeps: ["Sweeps"] },
  Files: { export: ["Export", ["train", "serve", "run", "cluster", "learn", "reason"]], catalogue: ["Catalogue"] },
};
const PAGES = Object.assign({}, ...Object.values(GROUPS));
let leave = () => {}, turn = 0;
restore();
window.addEventListener("pagehide", keep);

async function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = path.split("/")[0] in PAGES ? path.split("/")[0] : "";
  const words = new URLSearchParams(query || "");
  leave(); leave = () => {};
  const mine = ++turn, page = await import(`./pages/${words.has("s") ? "shared" : name || "home"}.js`);
  if (mine !== turn) return;
  document.title = `${page.title} · Windtunnel`;
  const at = h("div", {});  // a page that answers late writes into its own room, not over the next page
  fill(document.getElementById("page"), at);
  menu(name);
  const left = (await page.show(at, words, name)) || (() => {});
  menu(name);
  if (mine === turn) leave = left; else left();
}

let listed = "";

/** The pages that the scenario has, in their groups. @param {string} name */
function menu(name) {
  const known = kinds(state.text), shown = (id, of) => id === name || !of || of.some((verb) => known.includes(verb)), key = `${name} ${known}`;
  if (key === listed) return;
  listed = key;
  fill(document.getElementById("nav"), Object.entries(GROUPS).filter(([, pages]) => Object.entries(pages).some(([id, [, of]]) => shown(id, of))).map(([group, pages]) => h("div", { role: "group", "aria-label": group }, h("span", { class: "group", "aria-hidden": "true" }, group), Object.entries(pages).filter(([id, [, of]]) => shown(id, of)).map(([id, [title]]) => h("a", { href: `#/${id}`, "aria-current": id === name ? "page" : undefined }, title)))));
}
window.addEventListener("windtunnel-kind", () => menu(location.hash.replace(/^#\/?/, "").split(/[?/]/)[0]));

const root = document.documentElement, button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
function theme() {
  button.textContent = dark() ? "Light" : "Dark";
  window.dispatchEvent(new Event("themechange"));
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
