// Elements made from texts. Everything from the cluster's objects gets into the page here, and only as text.

const unseen = /[\p{C}\p{Zl}\p{Zp}]/gu;

// The value on one line, with a � for each invisible character, such as those that change the direction.
export const clean = (value) => String(value ?? "").replace(/\s/gu, " ").replace(unseen, "�");

// el("td", {class: "number"}, "12", el("b", {}, "x")); `on…` attributes are listeners; false, null and undefined are left out.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : clean(value));
  }
  fill(made, ...children);
  return made;
}

export function fill(element, ...children) {
  const nodes = children.flat(2).filter((one) => one !== null && one !== undefined && one !== false);
  element.replaceChildren(...nodes.map((one) => (one instanceof Node ? one : document.createTextNode(clean(one)))));
}

export function table(caption, heads, rows, attributes = {}) {
  const head = heads.map((one) => el("th", { scope: "col" }, one));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, at) => el(at ? "td" : "th", at ? { "data-head": heads[at] } : { scope: "row" }, cell))));
  return el("table", attributes, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
}

// A part of a page that is rendered again only when its data has changed, so that a reader does not lose selections.
export function part(element, make) {
  let shown;
  return (data, ...more) => {
    const text = JSON.stringify(data);
    if (text === shown) return;
    shown = text;
    fill(element, make(data, ...more));
  };
}

export const ranges = (queues) =>
  Object.entries(queues).map(([queue, numbers]) => `${queue} ${numbers}`).join("  ");

export const counted = (count, one, many = `${one}s`) => `${Number(count ?? 0).toLocaleString("en")} ${count === 1 ? one : many}`;

// Clocks: the server's time, and elements that count down.
let ahead = 0;
export const setClock = (seconds) => { ahead = seconds - Date.now() / 1000; };
export const now = () => Date.now() / 1000 + ahead;

export const clock = (until, after = "overdue") => el("span", { class: "clock", "data-until": until, "data-after": after }, left(until, after));

function left(until, after) {
  const seconds = until - now();
  if (seconds <= 0) return after;
  return seconds < 120 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s left` : `${Math.round(seconds / 60)} min left`;
}

export function ago(at) {
  const seconds = Math.max(0, now() - at);
  if (seconds < 120) return `${seconds.toFixed(0)} s ago`;
  return seconds < 7200 ? `${(seconds / 60).toFixed(0)} min ago` : `${(seconds / 3600).toFixed(0)} h ago`;
}

setInterval(() => {
  for (const one of document.querySelectorAll("[data-until]")) one.textContent = left(Number(one.dataset.until), one.dataset.after);
  for (const one of document.querySelectorAll("[data-at]")) one.textContent = ago(Number(one.dataset.at));
}, 200);
