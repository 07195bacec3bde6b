// Elements without markup in strings: nothing from a server or a table is ever parsed as HTML.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function show(parent, ...children) {
  parent.replaceChildren(...children.flat().filter(Boolean));
}

export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

export function copyable(title, text) {
  const button = el("button", { type: "button", class: "quiet", onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } }, "Copy");
  return el("div", { class: "snippet" }, el("div", { class: "row spread" }, el("h3", {}, title), button), el("pre", {}, text));
}

export const count = (number) => (number === null || number === undefined ? "–" : Number(number).toLocaleString("en"));

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  let value = Number(number);
  for (const unit of ["B", "KB", "MB", "GB", "TB"]) {
    if (value < 1000 || unit === "TB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1000;
  }
  return "";
}

export function seconds(value) {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}
