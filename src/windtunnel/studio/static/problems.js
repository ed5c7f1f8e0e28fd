// What is wrong, a line each. A Python file that a scenario names runs once its text was shown and trusted.
import { h, fill } from "./dom.js";
import { call } from "./api.js";

/** @param {any[]} problems @param {any} asked what was asked, with its file @param {() => void} again asks again */
export function problemLines(problems, asked, again) {
  return problems.map((p) => {
    const value = p.value !== null && p.value !== undefined && typeof p.value !== "object" ? ` = ${p.value}` : "";
    return h("div", { class: "problem", role: "alert" }, p.field ? h("strong", {}, `${p.field}${value}: `) : null, p.message, p.hint ? h("span", { class: "muted" }, ` ${p.hint}`) : null,
      p.message?.startsWith("is Python code") && p.value ? codeOf(p.value, asked.file, again) : null);
  });
}

/** @param {string} code @param {string | null} file @param {() => void} again */
function codeOf(code, file, again) {
  const at = h("div", {}), button = h("button", { onclick: show }, `Show ${code.split("/").pop()}`);
  async function show() {
    const found = await call("/api/code", { file, code });
    if (!found.ok) { fill(at, found.problems[0]?.message); return; }
    const run = h("button", { class: "main", onclick: async () => {
      const done = await call("/api/trust", { file, code, seen: found.text });
      if (done.ok) again(); else fill(at, done.problems[0]?.message);
    } }, `I have read ${found.path}: run it, until it changes`);
    fill(at, h("pre", { class: "code", tabindex: 0 }, found.text), run);
    button.remove();
  }
  return h("div", {}, button, at);
}
