// Why this peak? Tensors alive over the step on the stage that peaks highest, and what they are at any moment.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";
import { bars, gauge } from "../charts.js";
import { seconds, digits, shown } from "../format.js";
import { axes, figure, figures, grid, sized } from "../plots.js";

export const title = "Memory";
const bytes = (x) => shown(x, "bytes"), GIB = 2 ** 30;

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Memory", verb: "memory", now: true, start: "Draw again", comes: [["curve"], ["kinds of tensors over the step, under the capacity of the device"], "Below a second for most steps."], question: "Memory of the editor's scenario over one step, on the stage that peaks highest.", origin: () => ({ verb: "train" }), draw(answer, at) {
    const r = answer.result, m = r.memory;
    fill(at, h("section", { class: "card" }, figures(r, [["reserved at most", "peak_memory_reserved_bytes", bytes], ["tensors at most", "peak_memory_allocated_bytes", bytes], ["capacity", "memory.capacity_bytes", bytes], ["stage that peaks highest", "memory.stage", (x) => digits(x)]]), answer.fit ? [gauge(r.peak_memory_reserved_bytes, m.capacity_bytes, answer.fit[1]), h("p", { class: `verdict ${answer.fit[1]}` }, h("span", { "data-path": "memory_fits", "data-value": JSON.stringify(r.memory_fits) }, answer.fit[0]))] : null,
      m.fits ? null : h("div", { class: "warning" }, `${bytes(m.peak_reserved_bytes - m.capacity_bytes)} more than the device has: `, h("a", { href: "#/search" }, "find a plan that fits"), ", recompute more, or shard more of the state.")),
    m.curve_time_s?.length > 1 ? curve(r) : null, h("section", { class: "card" }, h("h2", {}, "At the peak"), bars(Object.entries(m.at_peak), bytes, "Memory at its peak", "memory.at_peak")),
    h("section", { class: "card" }, h("h2", {}, "Stages"), grid(["stage", "tensors at most"], m.per_stage_allocated_bytes.map((_, i) => [`stage ${i}`, figure(r, `memory.per_stage_allocated_bytes.${i}`, bytes)]), "Peak of each stage")));
  } });
}

/** Kinds of tensors on top of each other, with a cursor. @param {any} r */
function curve(r) {
  const m = r.memory, times = m.curve_time_s, kinds = Object.entries(m.curve_by_kind || { tensors: m.curve_bytes }).sort((a, b) => Math.max(...b[1]) - Math.max(...a[1]));
  const kept = thin(m.curve_bytes, 400), peak = kept.reduce((best, i) => (m.curve_bytes[i] > m.curve_bytes[best] ? i : best), kept[0]);
  let now = kept.indexOf(peak);
  const table = h("div", {}), said = h("strong", {});
  const plot = sized((wide) => {
    const drawn = axes({ wide, tall: 300, title: `Memory over the step of ${seconds(r.step_time_s)}: at most ${bytes(m.curve_bytes[peak])} after ${seconds(times[peak])}; the table below has the kinds at the moment of the slider`, xName: "seconds of the step", yName: "GiB", xWords: (x) => digits(x, 3), yWords: (x) => digits(x, 3), xs: kept.map((i) => times[i]), ys: [0, ...kept.map((i) => m.curve_bytes[i] / GIB), ...(m.capacity_bytes ? [m.capacity_bytes / GIB] : [])] });
    const below = kept.map(() => 0);
    kinds.forEach(([, values], k) => {
      const low = kept.map((_, j) => below[j]), high = kept.map((i, j) => (below[j] += values[i] / GIB)), edge = (list) => kept.map((i, j) => `${drawn.x.place(times[i]).toFixed(1)},${drawn.y.place(list[j]).toFixed(1)}`);
      drawn.svg.append(h("polygon", { class: `k${k % 6}`, "fill-opacity": k < 6 ? "0.85" : "0.5", points: [...edge(high), ...edge(low).reverse()].join(" ") }));
    });
    if (m.capacity_bytes) { const y = drawn.y.place(m.capacity_bytes / GIB); drawn.svg.append(h("line", { class: "limit", x1: drawn.left, x2: drawn.right, y1: y, y2: y }), h("text", { class: "soft", x: drawn.right, y: y - 5, "text-anchor": "end" }, `the device has ${bytes(m.capacity_bytes)}`)); }
    const x = drawn.x.place(times[kept[now]]);
    drawn.svg.append(h("line", { class: "cursor", x1: x, x2: x, y1: drawn.top, y2: drawn.bottom }));
    return drawn.svg;
  });
  const tell = () => {
    const i = kept[now];
    said.textContent = `${seconds(times[i])} into the step`;
    fill(table, grid(["kind", "size"], [...kinds.map(([name]) => [h("span", {}, key(kinds.findIndex(([n]) => n === name)), " ", name), m.curve_by_kind ? figure(r, `memory.curve_by_kind.${name}.${i}`, bytes) : ""]), ["all", figure(r, `memory.curve_bytes.${i}`, bytes)]], "Tensors alive at the cursor"));
  };
  const slider = h("input", { type: "range", min: 0, max: kept.length - 1, value: now, "aria-label": "Moment of the step", "aria-valuetext": seconds(times[kept[now]]), oninput: () => { now = Number(slider.value); slider.setAttribute("aria-valuetext", seconds(times[kept[now]])); tell(); plot.redraw(); } });
  tell();
  return h("section", { class: "card" }, h("h2", {}, "Memory over the step"), h("p", { class: "muted" }, `Stage ${m.stage}, which peaks highest. The cursor begins at the peak; move it with the slider.`), plot, h("p", {}, h("label", { class: "slider wide" }, "moment ", slider), " ", said), table);
}

/** @param {number} k */
const key = (k) => h("svg", { viewBox: "0 0 12 12", width: 12, height: 12, class: "dot", "aria-hidden": "true" }, h("rect", { x: 1, y: 1, width: 10, height: 10, class: `k${k % 6}`, "fill-opacity": k < 6 ? "0.85" : "0.5" }));

/** Rows of a curve that keep its highest points: of each stretch the largest. @param {number[]} list @param {number} most */
function thin(list, most) {
  if (list.length <= most) return list.map((_, i) => i);
  const each = list.length / most;
  return Array.from({ length: most }, (_, k) => { let best = Math.floor(k * each); for (let i = best; i < Math.floor((k + 1) * each); i++) if (list[i] > list[best]) best = i; return best; });
}
