// Draws the simulated step on a canvas: one band a stage, one lane a stream. Wheel zooms, drag pans, hover marks a
// micro-batch. Events arrive as deflated columns (see report/html.py); only what is on screen is drawn.
(function () {
  "use strict";
  const meta = JSON.parse(document.getElementById("timeline-meta").textContent);
  const box = document.getElementById("timeline");
  const canvas = box.querySelector("canvas");
  const tip = box.querySelector(".tip");
  const ctx = canvas.getContext("2d");
  const LEFT = 64, BOTTOM = 26, GAP = 5;
  let columns = null, lanes = [], view = [0, meta.span_s], hover = -1, drag = null, height = 0, frame = 0;

  async function inflate(text) {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  function unpack(buffer) {
    const n = meta.n;
    let at = 0;
    const take = (Type) => { const a = new Type(buffer.slice(at, at + n * Type.BYTES_PER_ELEMENT)); at += n * Type.BYTES_PER_ELEMENT; return a; };
    const gap = take(Int32Array), length = take(Int32Array), micro = take(Int32Array), tag = take(Int16Array), chunk = take(Int16Array);
    const start = new Float64Array(n), end = new Float64Array(n);
    lanes = meta.lanes.map((l) => ({ stage: l[0], stream: l[1], from: l[2], to: l[3] }));
    for (const lane of lanes) {
      let t = 0, latest = 0;
      for (let i = lane.from; i < lane.to; i++) {
        t += gap[i];
        start[i] = t * meta.tick_s;
        end[i] = (t + length[i]) * meta.tick_s;
        latest = Math.max(latest, length[i] * meta.tick_s);
      }
      lane.longest = latest;
    }
    return { start, end, micro, tag, chunk };
  }

  function layout() {
    const stages = [...new Set(lanes.map((l) => l.stage))];
    const band = Math.max(16, Math.min(64, Math.floor(620 / stages.length) - GAP));
    let y = 4;
    for (const stage of stages) {
      const mine = lanes.filter((l) => l.stage === stage);
      const thin = mine.length > 1 ? Math.min(0.4 * band, 9 * (mine.length - 1)) / (mine.length - 1) : 0;
      let at = y;
      mine.forEach((lane, i) => {
        lane.y = at;
        lane.h = i === 0 ? band - thin * (mine.length - 1) : thin;
        at += lane.h;
      });
      y += band + GAP;
    }
    height = y + BOTTOM;
    resize();
  }

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(height * ratio);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    redraw();
  }

  const shades = new Map();
  function shade(tag, chunk) {
    const key = tag * 64 + Math.max(chunk, 0);
    if (!shades.has(key)) {
      const hex = meta.colours[tag], most = Math.max(meta.chunks - 1, 1);
      const mix = chunk > 0 ? 0.42 * Math.min(chunk, most) / most : 0;
      const part = (i) => { const v = parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16); return Math.round(v + (255 - v) * mix); };
      shades.set(key, "rgb(" + part(0) + "," + part(1) + "," + part(2) + ")");
    }
    return shades.get(key);
  }

  function firstVisible(lane, t) {
    let low = lane.from, high = lane.to;
    while (low < high) { const mid = (low + high) >> 1; if (columns.start[mid] < t) low = mid + 1; else high = mid; }
    return low;
  }

  function redraw() { if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); }); }

  function draw() {
    if (!columns) return;
    const width = canvas.clientWidth, plot = width - LEFT - 6;
    ctx.clearRect(0, 0, width, height);
    const x = (t) => LEFT + (t - view[0]) / (view[1] - view[0]) * plot;
    ctx.font = "12px sans-serif";
    ctx.textBaseline = "middle";
    let stage = null;
    for (const lane of lanes) {
      if (lane.stage !== stage) {
        stage = lane.stage;
        const mine = lanes.filter((l) => l.stage === stage), last = mine[mine.length - 1];
        ctx.fillStyle = "#eef1f3";
        ctx.fillRect(LEFT, lane.y, plot, last.y + last.h - lane.y);
        ctx.fillStyle = "#52616b";
        ctx.textAlign = "right";
        ctx.fillText("stage " + stage, LEFT - 8, (lane.y + last.y + last.h) / 2);
      }
    }
    ctx.save();
    ctx.beginPath();
    ctx.rect(LEFT, 0, plot, height);
    ctx.clip();
    for (const lane of lanes) {
      let lastX = -1, lastKey = "";
      for (let i = firstVisible(lane, view[0] - lane.longest); i < lane.to && columns.start[i] < view[1]; i++) {
        if (columns.end[i] <= view[0]) continue;
        const a = x(columns.start[i]), w = x(columns.end[i]) - a;
        const micro = columns.micro[i], marked = hover >= 0 && micro === hover;
        const colour = shade(columns.tag[i], columns.chunk[i]);
        const pixel = Math.round(a * 2), key = colour + marked;
        if (w < 0.5 && pixel === lastX && key === lastKey) continue;
        lastX = pixel; lastKey = key;
        ctx.globalAlpha = hover >= 0 && !marked ? 0.22 : 1;
        ctx.fillStyle = colour;
        ctx.fillRect(a, lane.y, Math.max(w - (w > 3 ? 0.6 : 0), 0.5), lane.h);
        if (w > 16 && lane.h > 13 && micro >= 0) {
          ctx.fillStyle = "rgba(255,255,255,.95)";
          ctx.textAlign = "center";
          ctx.fillText(String(micro + 1), a + w / 2, lane.y + lane.h / 2 + 0.5);
        }
      }
    }
    ctx.restore();
    ctx.globalAlpha = 1;
    axis(plot, x);
  }

  function axis(plot, x) {
    const span = view[1] - view[0], rough = span / Math.max(plot / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough), y = height - BOTTOM + 3;
    const unit = step >= 0.5 ? [1, " s"] : step >= 5e-4 ? [1e3, " ms"] : [1e6, " µs"];
    const digits = Math.max(0, -Math.floor(Math.log10(step * unit[0]) + 1e-9));
    ctx.strokeStyle = "#c5ced4";
    ctx.fillStyle = "#52616b";
    ctx.textAlign = "center";
    for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) {
      ctx.beginPath(); ctx.moveTo(x(t), y - 3); ctx.lineTo(x(t), y + 3); ctx.stroke();
      ctx.fillText((t * unit[0]).toFixed(digits) + unit[1], x(t), y + 12);
    }
  }

  function timeAt(px) { return view[0] + (px - LEFT) / (canvas.clientWidth - LEFT - 6) * (view[1] - view[0]); }

  function show(a, b) {
    const span = Math.min(Math.max(b - a, meta.span_s * 1e-6), meta.span_s);
    a = Math.min(Math.max(a, 0), meta.span_s - span);
    view = [a, a + span];
    redraw();
  }

  canvas.addEventListener("wheel", (e) => {
    e.preventDefault();
    const at = timeAt(e.offsetX), factor = Math.exp(e.deltaY * 0.0016);
    show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  }, { passive: false });
  canvas.addEventListener("mousedown", (e) => { drag = [e.offsetX, view[0], view[1]]; canvas.classList.add("dragging"); });
  window.addEventListener("mouseup", () => { drag = null; canvas.classList.remove("dragging"); });
  canvas.addEventListener("dblclick", () => show(0, meta.span_s));
  canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; if (hover >= 0) { hover = -1; redraw(); } });
  canvas.addEventListener("mousemove", (e) => {
    if (!columns) return;
    if (drag) {
      const moved = (drag[0] - e.offsetX) / (canvas.clientWidth - LEFT - 6) * (drag[2] - drag[1]);
      show(drag[1] + moved, drag[2] + moved);
      return;
    }
    const t = timeAt(e.offsetX), lane = lanes.find((l) => e.offsetY >= l.y && e.offsetY < l.y + l.h);
    let found = -1;
    if (lane && e.offsetX >= LEFT) {
      for (let i = firstVisible(lane, t - lane.longest); i < lane.to && columns.start[i] <= t; i++) if (columns.end[i] >= t) found = i;
    }
    const micro = found >= 0 ? columns.micro[found] : -1;
    if (micro !== hover) { hover = micro; redraw(); }
    if (found < 0) { tip.style.display = "none"; return; }
    const took = columns.end[found] - columns.start[found];
    tip.textContent = meta.tags[columns.tag[found]] + " · stage " + lane.stage + ", " + meta.streams[lane.stream] +
      (micro >= 0 ? " · micro-batch " + (micro + 1) : "") + (columns.chunk[found] >= 0 ? " · chunk " + columns.chunk[found] : "") +
      " · " + (took >= 1e-3 ? (took * 1e3).toFixed(3) + " ms" : (took * 1e6).toFixed(2) + " µs") + " at " + columns.start[found].toFixed(4) + " s";
    tip.style.display = "block";
    tip.style.left = Math.min(e.offsetX + 14, canvas.clientWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = e.offsetY + 16 + "px";
  });
  document.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => {
    const span = meta.span_s, [a, b] = JSON.parse(button.dataset.view);
    show(a * span, b * span);
  }));
  window.addEventListener("resize", () => { if (columns) resize(); });

  if (typeof DecompressionStream === "undefined") {
    box.textContent = "This browser is too old to show the timeline (it lacks DecompressionStream).";
    return;
  }
  inflate(document.getElementById("timeline-data").textContent.trim()).then((buffer) => { columns = unpack(buffer); layout(); });
})();
