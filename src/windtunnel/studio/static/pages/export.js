// Launch files of the plan, with what the target cannot express; and the same question for a terminal or Python.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { state, START } from "../state.js";

export const title = "Export";
const TRAINS = { megatron: "Megatron-LM", "megatron-bridge": "Megatron Bridge", torchtitan: "TorchTitan", deepspeed: "DeepSpeed" }, SERVES = { vllm: "vLLM", sglang: "SGLang", trtllm: "TensorRT-LLM" };
const WRAPPERS = { torchrun: "by hand", slurm: "Slurm", kubernetes: "Kubernetes" }, KINDS = { sh: "text/x-shellscript", yaml: "application/yaml", json: "application/json" };

/** @param {any} page */
export async function show(page) {
  const text = state.text || START, serves = /^serving\s*:/m.test(text), targets = serves ? SERVES : TRAINS, name = (state.path.split("/").pop() || "scenario.yaml").replace(/\s+/g, "-").replace(/(\.ya?ml|\.json)?$/, ".yaml");
  const out = h("div", {}), target = h("select", { "aria-label": "Target" }, Object.entries(targets).map(([t, said]) => h("option", { value: t }, said))), wrapper = h("select", { "aria-label": "Started by" }, Object.entries(WRAPPERS).map(([t, said]) => h("option", { value: t }, said)));
  const verb = state.answer?.verb || state.verb || (serves ? "serve" : ["programs", "learning", "jobs", "run"].map((s, i) => (new RegExp(`^${s}\\s*:`, "m").test(text) ? ["reason", "learn", "cluster", "run"][i] : "")).find(Boolean) || "train");
  fill(page, h("h1", {}, "Export"), h("p", { class: "muted" }, "Launch files for the scenario of the editor. What the target has no word for is told here and at the head of each file."),
    h("p", { class: "of" }, "Scenario: ", h("a", { href: "#/scenario" }, state.path || state.fields?.name || "new scenario")),
    h("div", { class: "row" }, h("label", {}, serves ? "server " : "framework ", target), h("label", {}, "started ", wrapper), h("button", { class: "main", onclick: go }, "Write")), out,
    h("section", { class: "card" }, h("h2", {}, "The same elsewhere"), h("p", { class: "muted" }, "The scenario as a file, then on a terminal or in Python: the same figures."), h("div", { class: "row" }, h("button", { onclick: () => save(name, text) }, `Download ${name}`), state.answer?.ok ? h("button", { onclick: () => save(name.replace(/\.yaml$/, ".json"), JSON.stringify(state.answer.result, null, 2)) }, "Download the answer as JSON") : null),
      code("On a terminal", `windtunnel ${verb} ${name} --json\nwindtunnel ${verb} ${name} --report report.html`), code("In Python", `${["train", "serve"].includes(verb) ? "import windtunnel as wt\n\nresult = wt" : "from windtunnel import api\n\nresult = api"}.${{ train: "simulate_training", serve: "simulate_serving", run: "simulate_run", learn: "simulate_learning", cluster: "simulate_cluster", reason: "simulate_programs" }[verb]}("${name}")\nprint(result.to_dict())`)));
  async function go() {
    const found = await call("/api/export", { text, file: state.file, target: target.value, wrapper: wrapper.value });
    if (!found.ok) { fill(out, found.problems.map((p) => h("div", { class: "problem", role: "alert" }, p.field ? `${p.field}: ` : "", p.message, p.hint ? ` ${p.hint}` : ""))); return; }
    const files = Object.entries(found.files);
    fill(out, [...found.misfits, ...found.unsupported].map((w) => h("div", { class: "warning" }, w)), files.length > 1 ? h("div", { class: "row" }, h("button", { onclick: () => files.forEach(([n, t]) => save(n, t)) }, `Download all ${files.length} files`)) : null,
      files.map(([n, t]) => h("section", { class: "card" }, h("div", { class: "row" }, h("h2", {}, n), h("button", { "aria-label": `Download ${n}`, onclick: () => save(n, t) }, "Download"), copied(n, t)), h("pre", { tabindex: 0 }, t))),
      found.notes.length ? h("details", { class: "card", open: true }, h("summary", {}, "Notes"), h("ul", {}, found.notes.map((n) => h("li", {}, n)))) : null);
  }
}

/** @param {string} said @param {string} text */
function code(said, text) { return h("div", {}, h("div", { class: "row" }, h("h3", {}, said), copied(said, text)), h("pre", { tabindex: 0 }, text)); }

/** @param {string} name @param {string} text */
function copied(name, text) {
  const button = h("button", { "aria-label": `Copy ${name}`, onclick: async () => { try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Not allowed here"; } } }, "Copy");
  return button;
}

/** @param {string} name @param {string} text */
function save(name, text) {
  const at = URL.createObjectURL(new Blob([text], { type: KINDS[name.split(".").pop()] || "text/plain" }));
  h("a", { href: at, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(at), 1000);
}
