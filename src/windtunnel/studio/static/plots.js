// Charts that fit their width: axes, lines with bands, points. Each is told in words, and its page has its table.
import { h, fill } from "./dom.js";
import { at } from "./format.js";

/** A figure of the answer: its text, its path in the answer and its exact value. @param {any} data @param {string} path @param {(x: any) => string} words @param {string} [tag] @param {any} [given] */
export function figure(data, path, words, tag = "span", given = {}) {
  const value = at(data, path);
  return h(tag, { "data-path": path, "data-value": JSON.stringify(value ?? null), ...given }, value === null || value === undefined ? "–" : words(value));
}

/** Named figures as cards. @param {any} data @param {[string, string, (x: any) => string][]} rows */
export function figures(data, rows) {
  return h("div", { class: "figures" }, rows.filter(([, path]) => at(data, path) !== undefined && at(data, path) !== null)
    .map(([name, path, words]) => h("div", { class: "figure" }, h("div", { class: "name" }, name), figure(data, path, words, "div", { class: String(words(at(data, path))).length > 14 ? "value words" : "value" }))));
}

/** A table of the answer's figures: each cell a node or words. @param {string[]} names @param {any[][]} rows @param {string} label */
export function grid(names, rows, label) {
  const kind = names.map((_, i) => (i && !rows.every((row) => typeof row[i] === "string" && !/^[−+-]?\d/.test(row[i])) ? "n" : ""));
  return h("div", { class: names.length < 4 ? "scroll few" : "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((n, i) => h("th", { scope: "col", class: kind[i] }, n)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => (i ? h("td", { class: kind[i] }, cell) : h("th", { scope: "row" }, cell))))))));
}

/** A drawing that is made again when its room changes. @param {(wide: number) => any} draw */
export function sized(draw) {
  const box = h("div", { class: "plot" });
  let last = 0;
  new ResizeObserver(([e]) => { const wide = Math.round(Math.min(1180, e.contentRect.width)); if (wide > 0 && wide !== last) { last = wide; fill(box, draw(wide)); } }).observe(box);
  return Object.assign(box, { redraw: () => { if (last) fill(box, draw(last)); } });
}

/** @param {number[]} list @param {number} from @param {number} to @param {boolean} log @param {number} most */
export function scale(list, from, to, log, most = 6) {
  const how = log ? Math.log10 : (x) => x;
  let low = Math.min(...list.map(how)), high = Math.max(...list.map(how));
  if (!(high > low)) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
  const span = high - low; low -= span * 0.04; high += span * 0.06;
  const place = (x) => from + ((how(x) - low) / (high - low)) * (to - from), back = (p) => { const t = low + ((p - from) / (to - from)) * (high - low); return log ? 10 ** t : t; };
  let ticks = [];
  if (log) {
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      if (ticks.length && ticks.length <= most) break;
      ticks = [];
      for (let e = Math.floor(low); e <= Math.ceil(high); e++) for (const m of steps) ticks.push(Number(`${m}e${e}`));
      ticks = ticks.filter((t) => Math.log10(t) >= low && Math.log10(t) <= high);
    }
    while (ticks.length > most) ticks = ticks.filter((_, i) => i % 2 === 0);
  } else {
    const rough = (high - low) / most, e = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((m) => m * e).find((s) => s >= rough) || rough;
    for (let t = Math.ceil(low / step) * step; t <= high; t += step) ticks.push(Math.abs(t) < step / 1e6 ? 0 : t);
  }
  return { place, back, ticks };
}

/** Axes of a drawing. @param {any} what xs, ys, xName, yName, xWords, yWords, xLog, yLog, wide, tall, title */
export function axes(what) {
  const { wide, tall = 300, xs, ys, xLog = false, yLog = false } = what, left = 66, right = wide - 12, top = 26, bottom = tall - 42;
  const x = scale(xs, left, right, xLog, wide < 500 ? 4 : 6), y = scale(ys, bottom, top, yLog);
  const svg = h("svg", { viewBox: `0 0 ${wide} ${tall}`, role: what.reached ? "group" : "img", "aria-label": what.title });
  for (const t of y.ticks) svg.append(h("line", { class: "grid", x1: left, x2: right, y1: y.place(t), y2: y.place(t) }), h("text", { class: "soft", x: left - 7, y: y.place(t) + 4, "text-anchor": "end" }, what.yWords(t)));
  for (const t of what.xTicks || x.ticks) svg.append(h("line", { class: "grid", x1: x.place(t), x2: x.place(t), y1: bottom, y2: bottom + 4 }), h("text", { class: "soft", x: x.place(t), y: bottom + 18, "text-anchor": "middle" }, what.xWords(t)));
  svg.append(h("text", { x: (left + right) / 2, y: tall - 6, "text-anchor": "middle" }, what.xName), h("text", { x: 2, y: 13 }, what.yName));
  return { svg, x, y, left, right, top, bottom };
}

/** Lines with bands over axes. @param {any} what as `axes`, and lines: {name, points: [x, y][], band?: [x, low, high][]}[] */
export function lines(what) {
  const all = what.lines.flatMap((l) => [...l.points, ...(l.band || []).flatMap(([x, a, b]) => [[x, a], [x, b]])]), keep = ([x, y]) => Number.isFinite(x) && Number.isFinite(y) && (!what.xLog || x > 0) && (!what.yLog || y > 0);
  const seen = all.filter(keep);
  const drawn = axes({ ...what, xs: seen.map(([x]) => x), ys: [...seen.map(([, y]) => y), ...(what.also || [])] });
  what.lines.forEach((l, i) => {
    const band = (l.band || []).filter(([x, a, b]) => keep([x, a]) && keep([x, b]));
    if (band.length > 1) drawn.svg.append(h("polygon", { class: `k${i % 6}`, "fill-opacity": "0.18", points: [...band.map(([x, a]) => [x, a]), ...band.slice().reverse().map(([x, , b]) => [x, b])].map(([x, y]) => `${drawn.x.place(x).toFixed(1)},${drawn.y.place(y).toFixed(1)}`).join(" ") }));
    const points = l.points.filter(keep);
    drawn.svg.append(h("polyline", { class: `s${i % 6}`, points: points.map(([x, y]) => `${drawn.x.place(x).toFixed(1)},${drawn.y.place(y).toFixed(1)}`).join(" ") }));
    if (points.length <= 24) for (const [x, y] of points) drawn.svg.append(h("circle", { class: `k${i % 6}`, cx: drawn.x.place(x), cy: drawn.y.place(y), r: 3.5 }, h("title", {}, `${l.name}: ${what.yWords(y)} at ${what.xWords(x)}`)));
  });
  return drawn;
}

/** What the lines are called; patterns besides colours. @param {string[]} names */
export function legend(names) {
  return h("div", { class: "row keys" }, names.map((n, i) => h("span", {}, h("svg", { viewBox: "0 0 30 10", width: 30, height: 10, class: "key", "aria-hidden": "true" }, h("line", { class: `s${i % 6}`, x1: 1, x2: 29, y1: 5, y2: 5 })), " ", n)));
}

const KEY_STEP = 1.02;

/** A line across a drawing that is dragged, or moved with the arrow keys (page keys: ten steps, Home and End: the ends). @param {any} drawn @param {any} what axis ("x" or "y"), label, value, say(value), log, moved(value) @returns {any} */
export function draggable(drawn, what) {
  const flat = what.axis === "y", scale = flat ? drawn.y : drawn.x, ends = flat ? [drawn.bottom, drawn.top] : [drawn.left, drawn.right];
  const low = scale.back(ends[0]), high = scale.back(ends[1]);
  let value = what.value;
  const rule = h("line", flat ? { x1: drawn.left, x2: drawn.right } : { y1: drawn.top, y2: drawn.bottom }), words = h("text", flat ? { x: drawn.left + 6 } : { y: drawn.top - 4 });
  const grip = h("rect", { class: "grip", ...(flat ? { x: drawn.left, width: drawn.right - drawn.left, height: 22 } : { y: drawn.top, height: drawn.bottom - drawn.top, width: 22 }) });
  const line = h("g", { class: flat ? "drag" : "drag across", role: "slider", tabindex: 0, "aria-label": what.label, "aria-orientation": flat ? "vertical" : "horizontal" }, grip, rule, words);
  const place = () => {
    const clamped = Math.max(low, Math.min(high, value)), at = scale.place(clamped);
    for (const [node, names, shift] of flat ? [[rule, ["y1", "y2"], 0], [grip, ["y"], -11], [words, ["y"], -5]] : [[rule, ["x1", "x2"], 0], [grip, ["x"], -11]]) for (const n of names) node.setAttribute(n, at + shift);
    if (!flat) { const right = at > (drawn.left + drawn.right) / 2; words.setAttribute("x", at + (right ? -5 : 5)); words.setAttribute("text-anchor", right ? "end" : "start"); }
    words.textContent = what.say(value);
    for (const [n, v] of [["now", clamped], ["min", low], ["max", high], ["text", words.textContent]]) line.setAttribute(`aria-value${n}`, v);
  };
  const move = (to) => { value = Math.max(low, Math.min(high, to)); place(); what.moved(value); };
  const stepped = (n) => (what.log ? Math.max(low, Math.min(high, value)) * KEY_STEP ** n : Math.max(low, Math.min(high, value)) + (n * (high - low)) / 100);
  line.addEventListener("keydown", (e) => {
    const by = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 }[e.key];
    if (by) { e.preventDefault(); move(stepped(by)); } else if (e.key === "Home" || e.key === "End") { e.preventDefault(); move(e.key === "Home" ? low : high); }
  });
  line.addEventListener("pointerdown", (e) => { line.setPointerCapture(e.pointerId); e.preventDefault(); line.focus(); });
  line.addEventListener("pointermove", (e) => {
    if (!line.hasPointerCapture(e.pointerId)) return;
    const room = drawn.svg.getBoundingClientRect(), box = drawn.svg.viewBox.baseVal;
    move(scale.back(flat ? ((e.clientY - room.top) / room.height) * box.height : ((e.clientX - room.left) / room.width) * box.width));
  });
  place();
  drawn.svg.append(line);
  return { line, put: (to) => { value = to; place(); } };
}
