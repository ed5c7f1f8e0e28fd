// Devices, models and techniques, with the source of every value.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { digits, rate, seconds, shown } from "../format.js";

export const title = "Catalogue";

/** @param {any} page @param {URLSearchParams} words */
export async function show(page, words) {
  const kind = words.get("kind") || "techniques", out = h("div", { class: "card" }), side = h("div", {});
  const search = h("input", { type: "search", "aria-label": "Search", placeholder: "search", oninput: draw });
  const found = await call(`/api/catalogue/${kind}`);
  fill(page, h("h1", {}, "Catalogue"), h("p", { class: "muted" }, "What scenarios name: devices and models with the source of every value, and published techniques with what they change and cost."), h("div", { class: "row tabs" }, ["techniques", "devices", "models"].map((k) => h("a", { href: `#/catalogue?kind=${k}`, "aria-current": k === kind ? "page" : undefined }, k)), search), h("div", { class: "two catalogue" }, out, side));
  draw();
  if (words.get("name")) open(words.get("name"));
  function draw() {
    const asked = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = (found.entries || []).filter((e) => asked.every((w) => JSON.stringify(e).toLowerCase().includes(w)));
    fill(out, h("p", { class: "muted" }, `${rows.length} of ${(found.entries || []).length}`), h("table", {}, h("tbody", {}, rows.slice(0, 400).map((e) => h("tr", {}, h("td", {}, h("a", { href: `#/catalogue?kind=${kind}&name=${encodeURIComponent(e.id)}`, onclick: (ev) => { ev.preventDefault(); open(e.id); } }, e.id)), h("td", { class: "muted" }, [e.summary || e.vendor, e.family].filter(Boolean).join(" · ")))))));
  }
  async function open(name) {
    const one = await call(`/api/entry/${kind}/${encodeURIComponent(name)}`);
    fill(side, h("div", { class: "card entry" }, h("h2", { tabindex: -1 }, name), one.ok ? tree(one.entry) : h("p", { class: "problem" }, one.problems[0]?.message)));
    if (innerWidth <= 980) side.querySelector("h2").focus();
  }
}

/** Units by the end of a field's name. @type {[RegExp, (x: number) => string][]} */
const UNITS = [[/flop_per_s$/, (x) => rate(x, "FLOP/s")], [/bytes_per_s$/, (x) => rate(x, "B/s")], [/bytes$/, (x) => (x >= 2 ** 30 ? shown(x, "bytes") : `${digits(x / 2 ** 20, 4)} MiB`)], [/_hz$/, (x) => `${digits(x / 1e9, 4)} GHz`], [/_w$/, (x) => `${digits(x)} W`], [/price_per_hour$/, (x) => `${digits(x)} USD an hour`], [/_s$/, seconds]];

/** @param {any} value @param {string} [name] @returns {any} */
function tree(value, name = "") {
  if (typeof value === "number") { const unit = UNITS.find(([end]) => end.test(name)); return h("span", { title: String(value) }, unit ? unit[1](value) : Math.abs(value) >= 1e7 ? shown(value, "si") : digits(value, 8)); }
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (value === null || typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.every((v) => v === null || typeof v !== "object") ? value.join(", ") : h("div", {}, value.map((v) => tree(v, name)));
  const rows = Object.entries(value).filter(([, v]) => v !== null && v !== "" && !(Array.isArray(v) && !v.length));
  return h("table", {}, h("tbody", {}, rows.map(([k, v]) => h("tr", {}, h("th", { scope: "row" }, k.replaceAll("_", " ")), h("td", {}, typeof v === "string" && v.startsWith("https://") ? h("a", { href: v, rel: "noreferrer", target: "_blank" }, v) : tree(v, typeof v === "object" || /_/.test(k) ? (/(^|_)(s|w|hz|bytes|flop)$|per_/.test(k) || typeof v === "number" ? k : name) : name))))));
}
