// Charts from plain data. Each has its table, so that nothing is told by colour alone.
import { h } from "./dom.js";
import { digits } from "./format.js";

/** Horizontal bars, longest first. @param {[string, number][]} rows @param {(x: number) => string} words @param {string} title */
export function bars(rows, words, title) {
  const kept = rows.filter(([, x]) => x > 0).sort((a, b) => b[1] - a[1]).slice(0, 12), most = Math.max(...kept.map(([, x]) => x), 1e-30);
  return h("dl", { class: "bars", "aria-label": title }, kept.map(([name, x]) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.5, (100 * x) / most)}%`;
    return [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, h("span", { class: "room" }, bar), h("span", { class: "words" }, words(x)))];
  }));
}

/** Points. @param {{x: number, y: number, group: string, words: string, open?: () => void}[]} points @param {string} xName @param {string} yName */
export function scatter(points, xName, yName) {
  const wide = 760, tall = 420, left = 78, bottom = 46, top = 14, right = 16;
  const groups = [...new Set(points.map((p) => p.group))].slice(0, 12);
  const log = (list) => list.every((x) => x > 0) && Math.max(...list) / Math.min(...list) > 20;
  const scale = (list, from, to) => {
    const how = log(list) ? Math.log10 : (x) => x;
    let low = Math.min(...list.map(how)), high = Math.max(...list.map(how));
    if (!(high > low)) { low -= 0.5; high += 0.5; }
    const span = high - low; low -= span * 0.04; high += span * 0.04;
    const place = (x) => from + ((how(x) - low) / (high - low)) * (to - from);
    const back = (t) => (log(list) ? 10 ** (low + t * (high - low)) : low + t * (high - low));
    return { place, ticks: [0.05, 0.275, 0.5, 0.725, 0.95].map(back) };
  };
  const x = scale(points.map((p) => p.x), left, wide - right), y = scale(points.map((p) => p.y), tall - bottom, top);
  const svg = h("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `${yName} against ${xName}, ${points.length} points` });
  for (const t of y.ticks) svg.append(h("line", { class: "grid", x1: left, x2: wide - right, y1: y.place(t), y2: y.place(t) }),
    h("text", { class: "soft", x: left - 8, y: y.place(t) + 4, "text-anchor": "end" }, digits(t, 3)));
  for (const t of x.ticks) svg.append(h("text", { class: "soft", x: x.place(t), y: tall - bottom + 18, "text-anchor": "middle" }, digits(t, 3)));
  svg.append(h("text", { x: (left + wide) / 2, y: tall - 6, "text-anchor": "middle" }, xName), h("text", { x: 4, y: 11 }, yName));
  for (const p of points) {
    const kind = groups.indexOf(p.group), cx = x.place(p.x), cy = y.place(p.y), size = points.length > 800 ? 2.2 : 4;
    const mark = kind % 2 ? h("rect", { x: cx - size, y: cy - size, width: 2 * size, height: 2 * size }) : h("circle", { cx, cy, r: size });
    mark.setAttribute("class", `k${Math.max(0, kind) % 6}`); mark.setAttribute("fill-opacity", "0.75");
    mark.append(h("title", {}, p.words));
    if (p.open) { mark.addEventListener("click", p.open); }
    svg.append(mark);
  }
  const legend = groups.length > 1 ? h("div", { class: "row" }, groups.map((g, i) => h("span", {}, h("svg", { viewBox: "0 0 12 12", width: 12, height: 12, class: "dot", "aria-hidden": "true" },
    i % 2 ? h("rect", { x: 2, y: 2, width: 8, height: 8, class: `k${i % 6}` }) : h("circle", { cx: 6, cy: 6, r: 4, class: `k${i % 6}` })), " ", g))) : null;
  return h("div", { class: "plot" }, legend, svg);
}

/** A table. @param {string[]} names @param {any[][]} rows @param {number} [most] */
export function table(names, rows, most = 200) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((n) => h("th", { scope: "col" }, n)))),
    h("tbody", {}, rows.slice(0, most).map((row) => h("tr", {}, row.map((x) => h("td", { class: typeof x === "number" ? "n" : "" }, typeof x === "number" ? digits(x, 5) : x === null ? "" : String(x)))))),
  ), rows.length > most ? h("p", { class: "muted" }, `${most} of ${rows.length} rows`) : null);
}
