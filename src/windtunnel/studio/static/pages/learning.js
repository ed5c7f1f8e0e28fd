// Which algorithm learns more, in how many steps, hours, bytes and joules? Curves with the band of their seeds.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";
import { seconds, digits } from "../format.js";
import { figure, figures, grid, legend, lines, sized } from "../plots.js";

export const title = "Learning";
const MOST_POINTS = 24;
const AXES = [["step", "steps", "steps", 1], ["time_s", "hours", "hours", 3600], ["bytes", "bytes a worker", "GiB a worker", 2 ** 30], ["joules", "joules", "MJ", 1e6]];
const gib = (x) => `${digits(x / 2 ** 30, 4)} GiB`, percent = (x) => `${digits(100 * x, 3)} %`, plain = (x) => digits(x, 4);

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Learning", verb: "learn", start: "Train and compare", comes: [["falling", "table"], ["loss against steps, hours, bytes and joules", "algorithms side by side", "how sure the order is"], "The small task is really trained, on this machine: about half a minute for two algorithms and two seeds. It can be stopped."], question: "The algorithms of a “learning” section on a small task, on the clock of the large one.", draw(answer, at) {
    const r = answer.result, names = Object.keys(r.algorithms);
    const curves = names.map((name) => ({ name, seeds: r.curves.map((c, i) => ({ ...c, i })).filter((c) => c.algorithm === name) }));
    fill(at, h("section", { class: "card" }, figures(r, [["task", "task", String], ["workers", "workers", plain], ["steps", "steps", plain], ["floor of the loss", "floor", plain], ["target loss", "goal.loss", plain]])),
      (r.warnings || []).map((w) => h("div", { class: "warning" }, w)), table(r, names), charts(r, curves), verdicts(r, names), r.notes?.length ? h("ul", { class: "muted" }, r.notes.map((n) => h("li", {}, n))) : null);
  } });
}

/** @param {any} r @param {any[]} curves */
function charts(r, curves) {
  const shown = AXES.filter(([axis]) => r.curves.some((c) => c.points.some((p) => p[axis] > 0)));
  const log = (axis) => { const ends = r.curves.map((c) => c.points[c.points.length - 1]?.[axis]).filter((x) => x > 0); return Math.max(...ends) / Math.min(...ends) > 8; };
  return h("section", { class: "card" }, h("h2", {}, "Loss"), h("p", { class: "muted" }, "Lines are the mean of the seeds, bands their least and most. The table above has the figures at the end."), legend(curves.map((c) => c.name)),
    h("div", { class: "pair" }, shown.map(([axis, words, name, size]) => sized((wide) => {
      const drawn = lines({ wide, tall: 270, title: `Loss against ${words} of ${curves.length} algorithms, ${curves.map((c) => `${c.name} ends at ${plain(r.algorithms[c.name].loss)}`).join(", ")}`, xName: name, yName: "loss", xLog: log(axis), xWords: (x) => digits(x, 3), yWords: (x) => digits(x, 3),
        also: r.goal?.loss ? [r.goal.loss] : [], lines: curves.map((c) => band(c, axis, size)) });
      if (typeof r.goal?.loss === "number") { const y = drawn.y.place(r.goal.loss); drawn.svg.append(h("line", { class: "limit", x1: drawn.left, x2: drawn.right, y1: y, y2: y }), h("text", { class: "soft", x: drawn.left + 4, y: y - 5 }, `target ${plain(r.goal.loss)}`)); }
      return drawn.svg;
    }))), h("details", {}, h("summary", {}, "Points of the curves"), curves.map((c) => points(r, c, shown))));
}

/** The points of an algorithm's first seed as a table: those that the lines are drawn through, for readers without pictures. @param {any} r @param {any} c @param {any[]} shown */
function points(r, c, shown) {
  const first = c.seeds[0], count = first?.points.length || 0;
  if (!count) return null;
  const kept = Array.from({ length: Math.min(count, MOST_POINTS) }, (_, k) => Math.round((k * (count - 1)) / Math.max(1, Math.min(count, MOST_POINTS) - 1)));
  const many = c.seeds.length > 1, f = (s, i, name, words) => figure(r, `curves.${s.i}.points.${i}.${name}`, words);
  return h("div", {}, h("h3", {}, c.name), grid([...shown.map(([, , name]) => name), ...c.seeds.map((_, k) => (many ? `loss, seed ${k + 1}` : "loss"))],
    kept.map((i) => [...shown.map(([axis, , , size]) => f(first, i, axis, (x) => digits(x / size, 4))), ...c.seeds.map((s) => (s.points[i] ? f(s, i, "loss", plain) : "–"))]), `Points of ${c.name}`));
}

/** Mean and range of the seeds, point by point. @param {any} c @param {string} axis @param {number} size */
function band(c, axis, size) {
  const count = Math.min(...c.seeds.map((s) => s.points.length)), points = [], range = [];
  for (let i = 0; i < count; i++) {
    const at = c.seeds.map((s) => s.points[i]), losses = at.map((p) => p.loss).filter(Number.isFinite);
    if (!losses.length) continue;
    const x = mean(at.map((p) => p[axis])) / size;
    points.push([x, mean(losses)]); range.push([x, Math.min(...losses), Math.max(...losses)]);
  }
  return { name: c.name, points, band: range };
}

/** @param {number[]} list */
const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

/** @param {any} r @param {string[]} names */
function table(r, names) {
  const rows = [["loss", "loss", plain], ["loss, low", "loss_low", plain], ["loss, high", "loss_high", plain], [r.metric || "metric", "metric", plain], ["gap to the first", "gap", plain], ["time to the target", "time_to_target_s", seconds], ["hours", "hours", plain],
    ["sent by a worker", "bytes_per_worker", gib], ["energy, kWh", "kwh", plain], [`cost, ${r.currency}`, "cost", plain], ["utilisation", "utilisation", percent], ["rounds", "rounds", plain]];
  return h("section", { class: "card" }, h("h2", {}, "Side by side"), grid(["figure", ...names], rows.map(([words, path, how]) => [words, ...names.map((n) => cell(r, n, path, how))]), "Algorithms side by side"));
}

/** Names may hold dots, so a figure is read from its own record. @param {any} r @param {string} name @param {string} field @param {(x: any) => string} how */
function cell(r, name, field, how) {
  const value = r.algorithms[name][field];
  return name.includes(".") ? h("span", {}, value === null || value === undefined ? "–" : how(value)) : figure(r, `algorithms.${name}.${field}`, how);
}

/** @param {any} r @param {string[]} names */
function verdicts(r, names) {
  return h("section", { class: "card" }, h("h2", {}, "How sure is the order?"), names.map((n) => {
    const one = r.verdicts?.[n];
    return one ? h("div", {}, h("h3", {}, `${n}: ${one.resolved ? "told apart" : "not told apart"}`), one.reasons?.length ? h("ul", {}, one.reasons.map((w) => h("li", {}, w))) : null) : null;
  }));
}
