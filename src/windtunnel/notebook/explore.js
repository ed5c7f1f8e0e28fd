// Fields of a scenario and its prediction, in a notebook's cell. Python answers; nothing is computed here.

function render({ model, el }) {
  const form = document.createElement("div");
  form.style.cssText = "display:grid;grid-template-columns:max-content 7em;gap:4px 10px;align-items:center";
  for (const name of model.get("fields")) {
    const label = document.createElement("label");
    const input = document.createElement("input");
    const value = model.get("values")[name];
    input.type = "number";
    input.step = "any";
    input.value = value === null || value === undefined ? "" : String(value);
    input.placeholder = "not set";
    input.id = `windtunnel-${name}-${Math.random().toString(36).slice(2)}`;
    label.htmlFor = input.id;
    label.textContent = name;
    input.addEventListener("change", () => {
      const number = input.value === "" ? null : Number(input.value);
      model.set("values", { ...model.get("values"), [name]: number });
      model.save_changes();
    });
    form.append(label, input);
  }
  const answer = document.createElement("div");
  answer.setAttribute("aria-live", "polite");
  const show = () => {
    answer.innerHTML = model.get("shown"); // made by Python, which escapes names
  };
  model.on("change:shown", show);
  show();
  el.style.cssText = "display:flex;flex-wrap:wrap;gap:24px";
  el.append(form, answer);
  return () => model.off("change:shown", show);
}

export default { render };
