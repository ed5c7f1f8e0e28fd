// Which technique would help, by how much, and why.
import { h, fill } from "../dom.js";
import { workPage, open } from "./work.js";

export const title = "Advice";

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Advice", verb: "advise", start: "Try published techniques", question: "Every published technique that applies is tried on the scenario of the editor.", draw(answer, at) {
    const r = answer.result, list = [...(r.suggestions || []), ...(r.settings || []), ...(r.pairs || []), ...(r.unlike || [])].filter((s) => typeof s.gain === "number").sort((a, b) => b.gain - a.gain).slice(0, 20);
    fill(at, h("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Advice" }, h("p", {}, `Bound by ${r.bottleneck || "–"}. Grey: the band holds no change at all.`), h("table", {}, h("thead", {}, h("tr", {}, ["what", "gain", "band", "price", ""].map((n) => h("th", { scope: "col", class: n === "gain" || n === "band" ? "n" : "" }, n)))),
      h("tbody", {}, list.map((s) => h("tr", { class: s.told_apart === false ? "unsure" : "" }, h("td", {}, s.words || s.id || s.kind), h("td", { class: "n" }, `${(100 * s.gain).toPrecision(3)} %`),
        h("td", { class: "n" }, typeof s.interval?.low === "number" ? `${(100 * s.interval.low).toPrecision(2)} to ${(100 * s.interval.high).toPrecision(2)} %` : ""), h("td", { class: "muted" }, s.quality || ""),
        h("td", {}, s.scenario && typeof s.scenario === "object" ? h("button", { onclick: () => open(merged(r.scenario || {}, s.scenario), "with advice") }, "open") : null)))))));
  } });
}

/** @param {any} a @param {any} b */
function merged(a, b) {
  const out = { ...a };
  for (const [name, value] of Object.entries(b)) out[name] = value && typeof value === "object" && !Array.isArray(value) && out[name] && typeof out[name] === "object" ? merged(out[name], value) : value;
  return out;
}
