// Charts from plain data. Each has its table, so that nothing is told by colour alone.
import { h } from "./dom.js";
import { digits } from "./format.js";
import { axes, sized } from "./plots.js";

/** Horizontal bars, longest first. @param {[string, number][]} rows @param {(x: number) => string} words @param {string} title @param {string} [path] of the record in the answer, for which each bar's figure stands */
export function bars(rows, words, title, path) {
  const kept = rows.filter(([, x]) => x > 0).sort((a, b) => b[1] - a[1]).slice(0, 12), most = Math.max(...kept.map(([, x]) => x), 1e-30);
  return h("dl", { class: "bars", "aria-label": title }, kept.map(([name, x]) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.5, (100 * x) / most)}%`;
    return [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, h("span", { class: "room" }, bar), h("span", { class: "words", ...(path ? { "data-path": `${path}.${name}`, "data-value": JSON.stringify(x) } : {}) }, words(x)))];
  }));
}

/** Points. @param {{x: number, y: number, group: string, words: string}[]} points @param {string} xName @param {string} yName */
export function scatter(points, xName, yName) {
  const groups = [...new Set(points.map((p) => p.group))], log = (list) => Math.min(...list) > 0 && Math.max(...list) / Math.min(...list) > 20, tick = (v) => digits(v, 3);
  const mark = (kind, x, y, size) => (kind % 2 ? h("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size }) : h("circle", { cx: x, cy: y, r: size }));
  const plot = sized((wide) => {
    const xs = points.map((p) => p.x), ys = points.map((p) => p.y), size = points.length > 800 ? 2.2 : 4.5;
    const drawn = axes({ wide, tall: Math.min(420, Math.max(280, wide * 0.55)), xs, ys, xLog: log(xs), yLog: log(ys), xName, yName, xWords: tick, yWords: tick, title: `${yName} against ${xName}, ${points.length} points; the table below has the rows` });
    for (const p of points) {
      const kind = groups.indexOf(p.group), one = mark(kind, drawn.x.place(p.x), drawn.y.place(p.y), size);
      one.setAttribute("class", `k${kind % 6}`); one.setAttribute("fill-opacity", "0.75");
      one.append(h("title", {}, p.words));
      drawn.svg.append(one);
    }
    return drawn.svg;
  });
  const legend = groups.length > 1 ? h("div", { class: "row" }, groups.slice(0, 12).map((g, i) => { const one = mark(i, 6, 6, 4); one.setAttribute("class", `k${i % 6}`); return h("span", {}, h("svg", { viewBox: "0 0 12 12", width: 12, height: 12, class: "dot", "aria-hidden": "true" }, one), " ", g); })) : null;
  return h("div", {}, legend, plot);
}

/** A table. @param {string[]} names @param {any[][]} rows @param {number} [most] */
export function table(names, rows, most = 200) {
  return h("div", { class: "scroll rows", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((n) => h("th", { scope: "col" }, n)))),
    h("tbody", {}, rows.slice(0, most).map((row) => h("tr", {}, row.map((x) => h("td", { class: typeof x === "number" ? "n" : "", title: typeof x === "string" && x.length > 30 ? x : undefined }, typeof x === "number" ? digits(x, 5) : x === null ? "" : String(x)))))),
  ), rows.length > most ? h("p", { class: "muted" }, `${most} of ${rows.length} rows`) : null);
}
