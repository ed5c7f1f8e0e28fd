// Launch files of the plan, with what the target cannot express.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { state, START } from "../state.js";

export const title = "Export";
const TARGETS = ["megatron", "megatron-bridge", "torchtitan", "deepspeed", "vllm", "sglang", "trtllm"];

/** @param {any} page */
export async function show(page) {
  const out = h("div", {}), target = h("select", { "aria-label": "Target" }, TARGETS.map((t) => h("option", { value: t }, t)));
  fill(page, h("h1", {}, "Export"), h("p", { class: "muted" }, "Launch files for the scenario of the editor."), h("div", { class: "row" }, target, h("button", { class: "main", onclick: go }, "Write")), out);
  async function go() {
    const found = await call("/api/export", { text: state.text || START, file: state.file, target: target.value });
    if (!found.ok) { fill(out, found.problems.map((p) => h("div", { class: "problem", role: "alert" }, p.field ? `${p.field}: ` : "", p.message, p.hint ? ` ${p.hint}` : ""))); return; }
    fill(out, [...found.misfits, ...found.unsupported].map((w) => h("div", { class: "warning" }, w)), Object.entries(found.files).map(([name, text]) => h("div", { class: "card" }, h("div", { class: "row" }, h("h2", {}, name), h("button", { onclick: () => navigator.clipboard.writeText(text) }, "Copy")), h("pre", { tabindex: 0 }, text))),
      found.notes.length ? h("details", { class: "card" }, h("summary", {}, "Notes"), h("ul", {}, found.notes.map((n) => h("li", {}, n)))) : null);
  }
}
