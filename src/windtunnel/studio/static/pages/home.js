// Where to start: what lies in the folder.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { state, START } from "../state.js";

export const title = "Home";

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
    if (file) { state.text = await file.text(); state.file = null; state.path = file.name; location.hash = "#/scenario"; }
  } });
  fill(at, h("h1", {}, `Scenarios in ${found.root}`),
    h("div", { class: "row" }, h("button", { class: "main", onclick: () => { state.text = START; state.file = null; state.path = ""; location.hash = "#/scenario"; } }, "New scenario"), drop),
    h("div", { class: "cards" }, found.scenarios.map((s) => h("a", { class: "card", href: `#/scenario?f=${s.id}` }, s.path))),
    found.scenarios.length ? null : h("p", { class: "muted" }, "No scenario lies in this folder."),
    h("h2", {}, "Sweeps"),
    found.sweeps.length ? h("div", { class: "cards" }, found.sweeps.map((s) => h("a", { class: "card", href: `#/sweeps?id=${s.id}` }, s.path)))
      : h("p", { class: "muted" }, "None yet: windtunnel sweep my.yaml --vary plan.tp=1,2,4 --out runs/a"));
}
