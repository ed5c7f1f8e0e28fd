// The best plan, with the proof that nothing is better.
import { h, fill } from "../dom.js";
import { workPage, open } from "./work.js";
import { seconds } from "../format.js";

export const title = "Search";

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Search", verb: "plan", start: "Find the best plan", question: "The best plan that keeps to the scenario's limits. What the scenario sets stays; `search:` says what may vary.", draw(answer, at) {
    const r = answer.result, plan = r.recommended?.scenario || r.scenario, step = r.best?.step_time_s;
    fill(at, h("div", { class: "card" }, typeof step === "number" ? h("p", {}, "Best step: ", h("strong", { "data-path": "best.step_time_s", "data-value": JSON.stringify(step) }, seconds(step))) : null,
      h("div", { class: "row" }, plan && typeof plan === "object" ? h("button", { class: "main", onclick: () => open(plan, "planned") }, "Open as scenario") : null)));
  } });
}
