// The only way from data to the page. Documents are untrusted: their text becomes text nodes, never
// markup. These functions cannot set markup, handler attributes or links to other sites.

const SVG = "http://www.w3.org/2000/svg";
const NAMES = /^(class|id|title|role|tabindex|type|name|value|for|href|lang|dir|hidden|disabled|open|checked|required|placeholder|min|max|step|accept|multiple|scope|data-[a-z-]+|aria-[a-z]+|viewBox|width|height|x|y|x1|x2|y1|y2|cx|cy|r|rx|d|transform|preserveAspectRatio|text-anchor|dominant-baseline)$/;
// Characters that reorder, hide or control text: their code points are shown instead.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/;
const HIDDEN_ALL = new RegExp(HIDDEN.source, "g");

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (name === "on") {
      for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    } else if (value === undefined || value === null || value === false) {
      continue;
    } else if (!NAMES.test(name)) {
      throw new Error(`attribute not allowed: ${name}`);
    } else if (name === "href" && !/^#/.test(value)) {
      throw new Error("links must stay on this page");
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(node, children);
  return node;
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const change = (node, props) => fill(node, props, []);
export const byId = (id) => document.getElementById(id);

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

const styles = new Map();

// Load the style sheet of a view once.
export function loadStyles(path) {
  if (!styles.has(path)) {
    styles.set(path, new Promise((resolve) => {
      const sheet = document.createElement("link");
      sheet.rel = "stylesheet";
      sheet.setAttribute("href", path);
      sheet.onload = sheet.onerror = resolve;
      document.head.append(sheet);
    }));
  }
  return styles.get(path);
}

// Return the text of a document with hidden characters made visible.
export function visibleText(text) {
  if (!HIDDEN.test(text)) return [text];
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(HIDDEN_ALL)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const point = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(h("span", { class: "ctl", title: "hidden character" }, `U+${point}`));
    at = match.index + match[0].length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

// A name from a document, isolated so that its text direction affects nothing else.
export const name = (text) => h("bdi", null, visibleText(text));

// Map character offsets to offsets in UTF-16 code units, which JavaScript strings use.
export function utf16Offsets(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (at) => Math.min(at, text.length);
  const places = new Uint32Array(text.length + 1);
  let count = 0;
  for (let at = 0; at < text.length; count += 1) {
    places[count] = at;
    at += text.codePointAt(at) > 0xffff ? 2 : 1;
  }
  places[count] = text.length;
  return (at) => places[Math.min(at, count)];
}

// Return text with marked spans.
export function marked(text, spans) {
  const toUtf16 = utf16Offsets(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of spans) {
    const [from, until] = [toUtf16(start), toUtf16(end)];
    if (from < at) continue;
    if (from > at) parts.push(visibleText(text.slice(at, from)));
    parts.push(h("mark", null, visibleText(text.slice(from, until))));
    at = until;
  }
  parts.push(visibleText(text.slice(at)));
  return parts;
}

export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    for (const item of [value].flat()) if (item !== "" && item !== undefined && item !== null) query.append(key, item);
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60]];

export function age(iso) {
  if (!iso) return "";
  const seconds = (new Date(iso) - Date.now()) / 1000;
  for (const [unit, size] of STEPS) if (Math.abs(seconds) >= size) return ago.format(Math.round(seconds / size), unit);
  return "just now";
}

export const number = (value) => new Intl.NumberFormat("en").format(value);
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
export function bytes(count) {
  const unit = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; count >= 1000 && at < 4; at += 1) count /= 1000;
  return `${count.toFixed(at && count < 10 ? 1 : 0)} ${unit[at]}`;
}

export function announce(text) {
  byId("live").textContent = text;
}

export function problem(error) {
  return h("div", { class: "problem", role: "alert" },
    h("p", null, visibleText(error.message || String(error))),
    error.hint ? h("p", { class: "small" }, visibleText(error.hint)) : null);
}

// Ask the user to confirm, and resolve to the answer.
export function confirm(title, text, yes) {
  const dialog = byId("confirm");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-yes").textContent = yes;
  return new Promise((resolve) => {
    const end = (answer) => () => { dialog.close(); resolve(answer); };
    byId("confirm-yes").onclick = end(true);
    byId("confirm-no").onclick = end(false);
    dialog.oncancel = () => resolve(false);
    dialog.showModal();
    byId("confirm-no").focus();
  });
}
