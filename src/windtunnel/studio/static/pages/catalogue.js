// Devices, models and techniques, with the source of every value.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { digits, shown } from "../format.js";

export const title = "Catalogue";

/** @param {any} page @param {URLSearchParams} words */
export async function show(page, words) {
  const kind = words.get("kind") || "techniques", out = h("div", { class: "card" }), side = h("div", {});
  const search = h("input", { type: "search", "aria-label": "Search", placeholder: "search", oninput: draw });
  const found = await call(`/api/catalogue/${kind}`);
  fill(page, h("h1", {}, "Catalogue"), h("div", { class: "row" }, ["techniques", "devices", "models"].map((k) => h("a", { href: `#/catalogue?kind=${k}`, "aria-current": k === kind ? "page" : undefined }, k)), search), h("div", { class: "two" }, out, side));
  draw();
  if (words.get("name")) open(words.get("name"));
  function draw() {
    const asked = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = (found.entries || []).filter((e) => asked.every((w) => JSON.stringify(e).toLowerCase().includes(w)));
    fill(out, h("p", { class: "muted" }, `${rows.length} of ${(found.entries || []).length}`), h("table", {}, h("tbody", {}, rows.slice(0, 400).map((e) => h("tr", {}, h("td", {}, h("a", { href: `#/catalogue?kind=${kind}&name=${encodeURIComponent(e.id)}`, onclick: (ev) => { ev.preventDefault(); open(e.id); } }, e.id)), h("td", { class: "muted" }, e.summary || e.vendor || ""))))));
  }
  async function open(name) {
    const one = await call(`/api/entry/${kind}/${encodeURIComponent(name)}`);
    fill(side, h("div", { class: "card entry" }, h("h2", { tabindex: -1 }, name), one.ok ? tree(one.entry) : h("p", { class: "problem" }, one.problems[0]?.message)));
    if (innerWidth <= 980) side.querySelector("h2").focus();
  }
}

/** @param {any} value @returns {any} */
function tree(value) {
  if (typeof value === "number") return h("span", { title: String(value) }, Math.abs(value) >= 1e5 ? shown(value, "si") : digits(value, 6));
  if (value === null || typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.every((v) => v === null || typeof v !== "object") ? value.join(", ") : h("div", {}, value.map(tree));
  return h("table", {}, h("tbody", {}, Object.entries(value).filter(([, v]) => v !== null && v !== "").map(([k, v]) => h("tr", {}, h("th", { scope: "row" }, k.replaceAll("_", " ")), h("td", {}, typeof v === "string" && v.startsWith("https://") ? h("a", { href: v, rel: "noreferrer", target: "_blank" }, v) : tree(v))))));
}
