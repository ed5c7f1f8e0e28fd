// Where does the step wait? Every stage's streams over the step, and what its seconds are.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";
import { bars } from "../charts.js";
import { seconds, digits, shown } from "../format.js";
import { figure, figures, grid } from "../plots.js";

export const title = "Timeline";

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Timeline", verb: "timeline", now: true, start: "Draw again", comes: [["gantt"], ["every stage and its streams over the step"], "Below a second for most steps."], question: "The simulated step of the editor's scenario, stage by stage: where it computes, where it waits, what hides what.",
    origin: () => ({ verb: "train" }), draw(answer, at) {
      const r = answer.result;
      fill(at, h("section", { class: "card" }, figures(r, [["step", "step_time_s", seconds], ["stages", "plan.pp", (x) => digits(x)], ["micro-batches", "num_micro_batches", (x) => digits(x)], ["schedule", "plan.schedule", String], ["bound by", "bound_by", String]]),
        answer.trace ? h("p", {}, h("a", { href: answer.trace, download: "windtunnel-trace.json" }, "Save the trace"), h("span", { class: "muted" }, " for ui.perfetto.dev, which opens such files")) : null), h("div", { class: "frame", "data-tall": 300 + 92 * Math.max(2, r.plan.pp || 1) }),
      h("section", { class: "card" }, h("h2", {}, "Where the time goes"), bars(Object.entries(r.breakdown), seconds, "Where the time goes", "breakdown")),
      r.stages?.length ? h("section", { class: "card" }, h("h2", {}, "Stages"), h("p", { class: "muted" }, "Seconds of one micro-batch on each stage; the slowest sets the pace."), grid(["stage", "layers", "forward", "backward", "peak memory"], r.stages.map((s, i) => [`stage ${s.stage}`,
        figure(r, `stages.${i}.layers`, (x) => digits(x)), figure(r, `stages.${i}.forward_s`, seconds), figure(r, `stages.${i}.backward_s`, seconds), figure(r, `stages.${i}.memory_bytes`, (x) => shown(x, "bytes"))]), "Stages")) : null);
    } });
}
