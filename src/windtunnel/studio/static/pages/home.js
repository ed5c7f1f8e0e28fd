// Where to start: what lies in the folder, and a scenario to begin with for each question.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { state, take, STARTS } from "../state.js";

export const title = "Home";
const ASKED = { training: "How long is a step, does it fit, what bounds it?", serving: "Which load keeps latencies within an objective?", run: "How many days with failures, saves and restarts?", learning: "Which algorithm learns most over my link?", reasoning: "More attempts, or a bigger model?" };
const VERBS = { train: "training", serve: "serving", run: "whole run", cluster: "jobs on a cluster", learn: "learning", reason: "reasoning" };

/** @param {any} at */
export async function show(at) {
  const found = await call("/api/files");
  if (!found.ok) { fill(at, h("p", { class: "problem" }, found.problems[0]?.message)); return; }
  if (found.opened && !state.text) {
    const sweep = found.sweeps.some((s) => s.id === found.opened);
    location.hash = sweep ? `#/sweeps?id=${found.opened}` : `#/scenario?f=${found.opened}`;
    return;
  }
  const drop = h("input", { type: "file", accept: ".yaml,.yml,.json", "aria-label": "Open a scenario from this computer", onchange: async () => {
    const file = drop.files[0];
    if (file) { take(await file.text(), { path: file.name }); location.hash = "#/scenario"; }
  } });
  const told = h("span", { class: "bad", role: "status" });
  const link = h("input", { type: "text", placeholder: "paste it here", "aria-label": "A link that was shared", size: 18, oninput: () => {
    const found = link.value.trim().match(/#\/scenario\?s=[\w-]+$/);
    told.textContent = found || !link.value.trim() ? "" : "This is no link to a scenario.";
    if (found) location.hash = found[0];
  } });
  const begin = (text) => { take(text); location.hash = "#/scenario"; };
  const filter = h("input", { type: "search", placeholder: "filter", "aria-label": "Filter the scenarios", oninput: () => list() }), cards = h("div", { class: "cards" });
  const list = () => { const words = filter.value.toLowerCase().split(/\s+/); fill(cards, found.scenarios.filter((s) => words.every((w) => JSON.stringify(s).toLowerCase().includes(w))).map((s) => h("a", { class: "card", href: `#/scenario?f=${s.id}` }, h("strong", {}, s.path), h("span", { class: "about" }, s.about), h("span", { class: "kind" }, [VERBS[s.verb], s.model?.split("/").pop()].filter(Boolean).join(" · "))))); };
  const words = h("input", { type: "text", class: "question", placeholder: "llama3-70b on 64 h100", "aria-label": "A question in words", size: 60 }), said = h("div", { role: "status" });
  const ask = async () => {
    fill(said, h("p", { class: "muted" }, "Reading, planning and predicting…"));
    const got = await call("/api/ask", { words: words.value.trim() || words.placeholder });
    if (!got.ok) { fill(said, (got.problems || []).map((p) => h("p", { class: "problem" }, [p.value ? `${p.value}: ` : "", p.message, p.hint ? ` ${p.hint}` : ""].join("")))); return; }
    fill(said, h("table", {}, h("tbody", {}, got.answer.map((row) => h("tr", {}, h("th", { scope: "row" }, row.name), h("td", { class: row.tone }, row.text))))),
      h("button", { onclick: () => begin(got.text) }, "Open as a scenario"));
  };
  fill(at, h("h1", {}, "What do you want to know?"),
    h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); ask(); } }, words, h("button", { type: "submit" }, "Ask")), said,
    h("p", { class: "muted" }, "A scenario says which model, which devices and what they do; the studio predicts it while you type, and every figure opens to what it is made of. Nothing leaves this machine."),
    h("div", { class: "cards" }, Object.entries(STARTS).map(([name, text]) => h("button", { class: "card start", "aria-label": `New scenario: ${name}`, onclick: () => begin(text) }, h("strong", {}, name), h("span", { class: "about" }, ASKED[name])))),
    h("div", { class: "row" }, state.text ? h("a", { href: "#/scenario" }, "back to the scenario of the editor") : null, h("label", {}, "open a file ", drop), h("label", {}, "or a shared link ", link), told),
    h("h2", {}, `Scenarios in ${found.root}`), found.scenarios.length > 8 ? h("div", { class: "row" }, filter) : null, cards,
    found.scenarios.length ? null : h("p", { class: "muted" }, "No scenario lies in this folder."),
    h("h2", {}, "Sweeps"),
    found.sweeps.length ? h("div", { class: "cards" }, found.sweeps.map((s) => h("a", { class: "card", href: `#/sweeps?id=${s.id}` }, h("strong", {}, s.path))))
      : h("div", { class: "muted" }, "None yet. One fans fields of a scenario out:", h("pre", { tabindex: 0 }, "windtunnel sweep my.yaml --vary plan.tp=1,2,4 --out runs/a")));
  list();
}
