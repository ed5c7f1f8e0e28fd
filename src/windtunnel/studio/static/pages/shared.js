// A scenario that came with a link: shown as text. Nothing is read or run before a click.
import { h, fill } from "../dom.js";
import { state, take } from "../state.js";
import { unpacked } from "../share.js";

export const title = "Shared scenario";

/** @param {any} page @param {URLSearchParams} words @param {string} name of the page that the link leads to */
export async function show(page, words, name) {
  let text;
  try { text = await unpacked(words.get("s") || ""); } catch { fill(page, h("h1", {}, "This link holds no scenario"), h("p", {}, "It is damaged or was cut. Ask for it again, or for the scenario as a file.")); return; }
  const open = () => { take(text); words.delete("s"); history.replaceState(null, "", `#/${name || "scenario"}${words.size ? `?${words}` : ""}`); window.dispatchEvent(new HashChangeEvent("hashchange")); };
  fill(page, h("h1", {}, "A scenario that was shared"), h("p", {}, "The link holds this text. Nothing has been predicted, and no file that it names has been read."),
    h("div", { class: "row" }, h("button", { class: "main", onclick: open }, "Open and predict it"), state.text && state.text !== text ? h("span", { class: "muted" }, "It takes the place of the scenario in the editor.") : null),
    h("pre", { tabindex: 0 }, text));
}
