// The button that changes between a light and a dark page. What was chosen is kept for other reports of this browser.
(function () {
  "use strict";
  const root = document.documentElement, key = "windtunnel-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem(key); } catch (e) { return null; } };
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const button = document.getElementById("theme");
  function told() {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", "Change to the " + (dark() ? "light" : "dark") + " theme");
    window.dispatchEvent(new Event("themechange"));
  }
  if (kept() === "dark" || kept() === "light") root.dataset.theme = kept();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem(key, root.dataset.theme); } catch (e) { /* a page from a file may keep nothing */ }
    told();
  });
  system.addEventListener("change", told);
  told();
})();
