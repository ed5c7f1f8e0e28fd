// Which technique would help, by how much, and why. A suggestion opens as a scenario, or stands as a column beside today's plan.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { state, START } from "../state.js";
import { digits, seconds, shown } from "../format.js";
import { workPage, open } from "./work.js";

export const title = "Advice";
const MOST = 20, MOST_COLUMNS = 6, signed = (x) => `${x < 0 ? "−" : "+"}${digits(Math.abs(100 * x), 3)} %`;
const KINDS = [["suggestions", "technique"], ["settings", "setting"], ["pairs", "two together"], ["unlike", "not like for like: what is trained or served changes"]];

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Advice", verb: "advise", start: "Try published techniques", comes: [["bars", "table"], ["techniques and settings by their gain, each with its paper, interval and cost"], "Each is predicted: about ten seconds for a step or a server. It can be stopped."], question: "Every published technique and setting that applies is tried on the scenario of the editor.", draw(answer, at) {
    const r = answer.result, list = KINDS.flatMap(([name, said]) => (r[name] || []).map((s, i) => ({ s, path: `${name}.${i}`, said }))).filter(({ s }) => typeof s.gain === "number").sort((a, b) => b.s.gain - a.s.gain).slice(0, MOST);
    const aim = (r.objective?.figure || "objective").replace(/_s$/, "").replaceAll("_", " "), fields = answer.fields || {}, whole = (s) => merged(fields, s.scenario), able = (s) => s.scenario && typeof s.scenario === "object";
    const value = (path, x, how) => h("span", { "data-path": path, "data-value": JSON.stringify(x ?? null) }, x === null || x === undefined ? "–" : how(x)), told = h("span", { class: "muted", role: "status" });
    fill(at, h("section", { class: "card" }, h("p", {}, "Bound by ", h("strong", {}, r.bottleneck || "–"), `. ${r.tried ?? list.length} changes were tried`, r.refused?.length ? `, ${r.refused.length} refused` : "", r.unfit?.length ? `, ${r.unfit.length} do not fit` : "", ". Gains are of the objective against today; grey: the band holds no change at all."), told,
      list.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Advice" }, h("table", { class: "advice" }, h("thead", {}, h("tr", {}, ["what", "gain", "band", aim, "memory", "what it costs"].map((n) => h("th", { scope: "col", class: ["gain", "band", "memory"].includes(n) || n === aim ? "n" : "" }, n)))),
        h("tbody", {}, list.map(({ s, path, said }) => h("tr", { class: s.told_apart === false ? "unsure" : "" }, h("td", {}, h("strong", {}, s.words || s.id || s.kind), s.summary ? h("div", {}, s.summary, ".") : null, h("div", { class: "muted" }, said, s.relieves ? ` · relieves ${s.relieves}` : "", (s.papers || [])[0] ? h("span", {}, " · ", paper(s.papers[0])) : null), able(s) ? h("div", { class: "does" }, [h("button", { "aria-label": `Open ${s.words} as a scenario`, onclick: () => open(whole(s), `with ${s.words}`) }, "open"), h("button", { "aria-label": `Add ${s.words} as a column`, onclick: (e) => column(s, fields, whole(s), e.target, told) }, "add as column")]) : null), h("td", { class: "n" }, value(`${path}.gain`, s.gain, signed)),
          h("td", { class: "n" }, typeof s.interval?.low === "number" ? [value(`${path}.interval.low`, s.interval.low, signed), " to ", value(`${path}.interval.high`, s.interval.high, signed)] : ""), h("td", { class: "n" }, value(`${path}.value`, s.value, /_s(\.|$)/.test(r.objective?.figure || "") ? seconds : (x) => digits(x))), h("td", { class: "n" }, value(`${path}.memory_change_bytes`, s.memory_change_bytes, (x) => `${x > 0 ? "+" : ""}${shown(x, "bytes")}`)),
          h("td", { class: "muted" }, [s.quality, s.costs].filter(Boolean).map((w) => `${w[0].toUpperCase()}${w.slice(1)}`).join(". "))))))) : h("p", {}, "Nothing that was tried gains anything."),
      h("p", {}, h("a", { href: "#/compare" }, "Columns side by side"))));
  } });
}

/** Today's plan and the suggestion as columns of Compare. @param {any} s @param {any} today @param {any} fields @param {any} button @param {any} told */
async function column(s, today, fields, button, told) {
  const say = (words) => { told.textContent = words; };
  button.disabled = true;
  const add = async (text, name) => {
    if (state.columns.some((c) => c.text === text)) return true;
    if (state.columns.length >= MOST_COLUMNS) { say(`${MOST_COLUMNS} columns are the most: remove one on Compare`); return false; }
    const found = await call("/api/predict", { text, file: state.file });
    if (!found.ok) { say(found.problems?.[0]?.message || "could not be predicted"); return false; }
    state.columns.push({ name, title: name, text, file: state.file, verb: found.verb, result: found.result, fields: found.fields });
    return true;
  };
  if (await add(state.text || START, state.path || today.name || "today") && await add(JSON.stringify(fields), s.words)) say(`${s.words} is column ${state.columns.length} on Compare, beside today's plan`);
  button.disabled = false;
}

/** A paper, as a link where it has one. @param {string} words */
function paper(words) {
  const link = words.match(/https:\/\/\S+/)?.[0];
  return link ? h("a", { href: link, rel: "noreferrer", target: "_blank" }, words.replace(link, "").trim()) : words;
}

/** @param {any} a @param {any} b */
function merged(a, b) {
  const out = { ...a };
  for (const [name, value] of Object.entries(b)) out[name] = value && typeof value === "object" && !Array.isArray(value) && out[name] && typeof out[name] === "object" ? merged(out[name], value) : value;
  return out;
}
