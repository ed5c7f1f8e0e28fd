// Charts from plain data. Each has its table, so that nothing is told by colour alone.
import { h, fill } from "./dom.js";
import { named, shown } from "./format.js";
import { axes, sized } from "./plots.js";

/** Share of the whole below which a bar is left out: it would be told as 0.0 %. */
const LEAST = 5e-4;

/** Horizontal bars, longest first. @param {[string, number][]} rows @param {(x: number) => string} words @param {string} title @param {string} [path] of the record in the answer, for which each bar's figure stands */
export function bars(rows, words, title, path) {
  const whole = rows.reduce((sum, [, x]) => sum + x, 0), kept = rows.filter(([, x]) => x > LEAST * whole).sort((a, b) => b[1] - a[1]).slice(0, 12), most = Math.max(...kept.map(([, x]) => x), 1e-30);
  return h("dl", { class: "bars", "aria-label": title }, kept.map(([name, x]) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.5, (100 * x) / most)}%`;
    return [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, h("span", { class: "room" }, bar), h("span", { class: "words", ...(path ? { "data-path": `${path}.${name}`, "data-value": JSON.stringify(x) } : {}) }, words(x)))];
  }));
}

/** Memory of what there is, as a bar; beyond what there is, a mark where that ends. @param {number} used @param {number} capacity @param {string} tone good, warn or bad */
export function gauge(used, capacity, tone) {
  const bar = h("span", { class: "bar" }), end = used > capacity ? h("span", { class: "end" }) : null, most = Math.max(used, capacity);
  bar.style.width = `${(100 * used) / most}%`;
  if (end) end.style.left = `${(100 * capacity) / most}%`;
  return h("div", { class: `gauge ${tone}`, role: "img", "aria-label": `${shown(used, "bytes")} of ${shown(capacity, "bytes")}` }, bar, end);
}

/** Records as bars of their classes on one scale that begins at zero. @param {string[]} classes @param {{name: string, values: Record<string, number>, most?: number}[]} list @param {(x: number) => string} words @param {string} title */
export function stacks(classes, list, words, title) {
  const whole = (one) => Object.values(one.values).reduce((a, b) => a + b, 0), most = Math.max(...list.map((one) => Math.max(whole(one), one.most || 0)), 1e-30), key = (i) => h("svg", { viewBox: "0 0 12 12", width: 12, height: 12, class: "dot", "aria-hidden": "true" }, h("rect", { x: 1, y: 1, width: 10, height: 10, class: `k${i % 6}`, "fill-opacity": i < 6 ? 1 : 0.5 }));
  return h("div", {}, h("div", { class: "row keys" }, classes.map((n, i) => h("span", {}, key(i), " ", n.replaceAll("_", " ")))), h("dl", { class: "bars stacks", "aria-label": title }, list.map((one) => {
    const bars = h("span", { class: "room", "aria-hidden": "true" }, classes.map((n, i) => { const part = h("span", { class: `part b${i % 6}${i < 6 ? "" : " pale"}`, title: `${n.replaceAll("_", " ")}: ${words(one.values[n] || 0)}` }); part.style.width = `${(100 * (one.values[n] || 0)) / most}%`; return part; }));
    if (one.most) { const end = h("span", { class: "end" }); end.style.left = `${(100 * one.most) / most}%`; bars.append(end); }
    return [h("dt", {}, one.name), h("dd", {}, bars, h("span", { class: "words" }, words(whole(one)), one.most ? h("div", { class: "range" }, `of ${words(one.most)}`) : null))];
  })));
}

const ORDERED = 12, MANY = 800;

/** Points that a frame can be drawn over. @param {any} what rows, x(row), y(row), xName, yName, kinds (words of x in their order; empty: numbers), group(row), words(row), brush([[name, [low, high]]]), small, title(name), told(name, value)
 * @returns {{node: any, mark: (inside: (row: any) => boolean) => void}} */
export function cloud(what) {
  const rows = what.rows.filter((r) => typeof what.x(r) === "number" && typeof what.y(r) === "number"), groups = [...new Set(rows.map(what.group))].sort((a, b) => a.localeCompare(b, "en", { numeric: true })), told = what.told || ((name, v) => named(name, v, 3)), tick = (v) => told(what.xName, v), yTick = (v) => told(what.yName, v);
  const steps = what.kinds.length ? what.kinds.map((_, i) => i) : [...new Set(rows.map(what.x))].sort((a, b) => a - b), ordered = what.kinds.length > 0 || (what.small && steps.length <= ORDERED);  // few values stand side by side
  const place = (r) => (ordered && !what.kinds.length ? steps.indexOf(what.x(r)) : what.x(r)), word = (i) => (Number.isInteger(i) && i >= 0 && i < steps.length ? (what.kinds.length ? what.kinds[i] : tick(steps[i])) : "");
  const spread = (list) => Math.min(...list) > 0 && Math.max(...list) / Math.min(...list) > 20;
  const shape = (kind, x, y, size) => (kind % 2 ? h("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size }) : h("circle", { cx: x, cy: y, r: size }));
  let marks = [], inside = () => true;
  const mark = (keeps) => { inside = keeps; for (const [r, node] of marks) node.classList.toggle("out", !inside(r)); };
  const plot = sized((wide) => {
    if (!rows.length) return h("p", { class: "muted" }, "Nothing to draw.");
    const xs = ordered ? [-0.4, steps.length - 0.6] : rows.map(place), ys = rows.map(what.y), size = rows.length > MANY ? 2 : what.small ? 3.6 : 4.5;
    const drawn = axes({ wide, tall: what.small ? 220 : Math.min(420, Math.max(280, wide * 0.4)), xs, ys, xLog: !ordered && spread(xs), yLog: spread(ys), xTicks: ordered ? steps.map((_, i) => i) : null, xName: what.title(what.xName), yName: what.title(what.yName), xWords: ordered ? word : tick, yWords: yTick, reached: true, title: `${what.title(what.yName)} against ${what.title(what.xName)}, ${rows.length} points; the table below has the rows` });
    marks = rows.map((r) => {
      const kind = groups.indexOf(what.group(r)), one = shape(kind, drawn.x.place(place(r)), drawn.y.place(what.y(r)), size);
      one.setAttribute("class", `k${kind % 6} dotted`);
      if (rows.length <= MANY) one.append(h("title", {}, what.words(r)));
      drawn.svg.append(one);
      return [r, one];
    });
    frame(drawn, (x0, x1, y0, y1) => {
      const [a, b] = [drawn.x.back(x0), drawn.x.back(x1)], low = ordered && !what.kinds.length ? steps.find((_, i) => i >= a) : a, high = ordered && !what.kinds.length ? steps.filter((_, i) => i <= b).pop() : b;
      if (low === undefined || high === undefined || low > high) return;
      what.brush([[what.xName, [low, high]], [what.yName, [drawn.y.back(y1), drawn.y.back(y0)]]]);
    });
    mark(inside);
    return drawn.svg;
  });
  const legend = groups.length > 1 && !what.small ? h("div", { class: "row keys" }, groups.slice(0, 12).map((g, i) => { const one = shape(i, 6, 6, 4); one.setAttribute("class", `k${i % 6}`); return h("span", {}, h("svg", { viewBox: "0 0 12 12", width: 12, height: 12, class: "dot", "aria-hidden": "true" }, one), " ", g); })) : null;
  return { node: h("div", {}, legend, plot), mark };
}

/** A frame drawn with the pointer. @param {any} drawn @param {(x0: number, x1: number, y0: number, y1: number) => void} done */
function frame(drawn, done) {
  const box = h("rect", { class: "frame-box" });
  let from = null;
  const at = (e) => { const room = drawn.svg.getBoundingClientRect(), view = drawn.svg.viewBox.baseVal; return [Math.max(drawn.left, Math.min(drawn.right, ((e.clientX - room.left) / room.width) * view.width)), Math.max(drawn.top, Math.min(drawn.bottom, ((e.clientY - room.top) / room.height) * view.height))]; };
  const between = (a, b) => [Math.min(a[0], b[0]), Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[1], b[1])];
  drawn.svg.classList.add("brushed");
  drawn.svg.addEventListener("pointerdown", (e) => { if (e.button) return; from = at(e); drawn.svg.setPointerCapture(e.pointerId); drawn.svg.append(box); e.preventDefault(); });
  drawn.svg.addEventListener("pointermove", (e) => { if (!from) return; const [x0, x1, y0, y1] = between(from, at(e)); for (const [n, v] of [["x", x0], ["y", y0], ["width", x1 - x0], ["height", y1 - y0]]) box.setAttribute(n, v); });
  const end = (e) => { if (!from) return; const [x0, x1, y0, y1] = between(from, at(e)); from = null; box.remove(); if (x1 - x0 > 4 && y1 - y0 > 4) done(x0, x1, y0, y1); };
  drawn.svg.addEventListener("pointerup", end);
  drawn.svg.addEventListener("pointercancel", () => { from = null; box.remove(); });
}

/** A table that a head sorts. @param {string[]} names @param {any[][]} rows @param {{most?: number, does?: ((i: number) => any)|null}} [how] */
export function cells(names, rows, how = {}) {
  const { most = 200, does = null } = how, room = h("div", { class: "scroll rows", tabindex: 0, role: "region", "aria-label": "Table" }), order = rows.map((_, i) => i);
  let by = -1, up = true;
  const less = (a, b) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  const sort = (i) => { up = by === i ? !up : true; by = i; order.sort((a, b) => (up ? 1 : -1) * less(rows[a][i], rows[b][i]) || a - b); draw(); room.querySelectorAll("th button")[i]?.focus(); };
  const cell = (x, i) => h("td", { class: typeof x === "number" ? "n" : "", title: typeof x === "number" || (typeof x === "string" && x.length > 30) ? x : undefined }, named(names[i], x, 5));
  function draw() {
    fill(room, h("table", {}, h("thead", {}, h("tr", {}, does ? h("th", { scope: "col" }, h("span", { class: "hidden" }, "open")) : null, names.map((n, i) => h("th", { scope: "col", class: rows.some((r) => typeof r[i] === "number") ? "n" : "", "aria-sort": by === i ? (up ? "ascending" : "descending") : undefined }, h("button", { class: "sort", onclick: () => sort(i) }, n, by === i ? (up ? " ↑" : " ↓") : ""))))),
      h("tbody", {}, order.slice(0, most).map((i) => h("tr", {}, does ? h("td", {}, does(i)) : null, rows[i].map(cell))))));
  }
  draw();
  return h("div", {}, room, rows.length > most ? h("p", { class: "muted" }, `${most} of ${rows.length} rows`) : null);
}
