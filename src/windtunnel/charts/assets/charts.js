// What a mark of a chart says: beside the pointer, or mark by mark with the arrow keys while the chart has the focus.
(function () {
  "use strict";
  const tip = document.createElement("div");
  tip.className = "chart-tip";
  tip.setAttribute("role", "status");
  document.body.appendChild(tip);
  let marked = null;

  const tells = (e) => e.hasAttribute("aria-label") && !/axis|legend|title|container/.test(e.getAttribute("aria-roledescription") || "");

  function hide() {
    tip.style.display = "none";
    if (marked) marked.classList.remove("on");
    marked = null;
  }

  function show(mark, x, y) {
    if (marked !== mark) {
      hide();
      marked = mark;
      mark.classList.add("on");
      tip.textContent = mark.getAttribute("aria-label");
    }
    tip.style.display = "block";
    tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
    const below = y + 16 + tip.offsetHeight < window.innerHeight;
    tip.style.top = (below ? y + 16 : Math.max(4, y - tip.offsetHeight - 10)) + "px";
  }

  function point(e) {
    const mark = e.target.closest && e.target.closest("figure.chart [aria-label]");
    if (mark && tells(mark)) show(mark, e.clientX, e.clientY); else if (marked) hide();
  }

  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (e) => {
    const chart = e.target.matches && e.target.matches("figure.chart") ? e.target : null;
    if (e.key === "Escape") { hide(); return; }
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!chart || !move) return;
    const all = [...chart.querySelectorAll("[aria-label]")].filter((m) => tells(m) && m.getClientRects().length);
    if (!all.length) return;
    e.preventDefault();
    const at = all.indexOf(marked), next = at < 0 ? (move > 0 ? 0 : all.length - 1) : (at + move + all.length) % all.length;
    const box = all[next].getBoundingClientRect();
    show(all[next], box.left + box.width / 2, box.top + box.height / 2);
  });
})();
