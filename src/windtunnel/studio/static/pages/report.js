// The whole report of the verb: timeline, memory, load, failures, curves.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";

export const title = "Report";

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Report", verb: "", start: "Make the report", question: "Timeline and memory of a step, the latencies of serving, the days of a run, the jobs of a cluster, or the curves of learning, for the scenario of the editor.",
    draw(answer, at) { fill(at, answer.report ? null : h("p", { class: "muted" }, "This verb has no report.")); } });
}
