// Where to start: what lies in the folder.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { state, STARTS } from "../state.js";

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
  const told = h("span", { class: "bad", role: "status" });
  const link = h("input", { type: "text", placeholder: "paste it here", "aria-label": "A link that was shared", size: 18, oninput: () => {
    const found = link.value.trim().match(/#\/scenario\?s=[\w-]+$/);
    told.textContent = found || !link.value.trim() ? "" : "This is no link to a scenario.";
    if (found) location.hash = found[0];
  } });
  fill(at, h("h1", {}, `Scenarios in ${found.root}`),
    h("div", { class: "row" }, "New scenario:", Object.entries(STARTS).map(([name, text]) => h("button", { class: name === "training" ? "main" : "", onclick: () => { Object.assign(state, { text, file: null, path: "", answer: null, verb: "", pinned: null }); location.hash = "#/scenario"; } }, name)), h("label", {}, "or open ", drop), h("label", {}, "or a shared link ", link), told),
    h("div", { class: "cards" }, found.scenarios.map((s) => h("a", { class: "card", href: `#/scenario?f=${s.id}` }, s.path))),
    found.scenarios.length ? null : h("p", { class: "muted" }, "No scenario lies in this folder."),
    h("h2", {}, "Sweeps"),
    found.sweeps.length ? h("div", { class: "cards" }, found.sweeps.map((s) => h("a", { class: "card", href: `#/sweeps?id=${s.id}` }, s.path)))
      : h("p", { class: "muted" }, "None yet: windtunnel sweep my.yaml --vary plan.tp=1,2,4 --out runs/a"));
}
