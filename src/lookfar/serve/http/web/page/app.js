// The frame of the page: views, global keyboard shortcuts, theme and index status.

import { announce, byId, h, link, problem, replace, plural } from "/web/dom.js";
import { follow } from "/web/api.js";
import * as search from "/web/search.js";

const VIEWS = {
  search: () => search,
  read: () => import("/web/read.js"),
  graph: () => import("/web/graph.js"),
  generations: () => import("/web/generations.js"),
  health: () => import("/web/health.js"),
  sources: () => import("/web/sources.js"),
  evaluation: () => import("/web/evaluation.js"),
  earlier: () => import("/web/earlier.js"),
};
const TITLES = { search: "Search", read: "Reading", graph: "Graph", generations: "History", health: "Health", sources: "Sources", evaluation: "Quality", earlier: "Earlier version" };
const PARENTS = { read: "search", earlier: "generations" };
const GO = { s: "search", g: "graph", t: "generations", h: "health", o: "sources", e: "evaluation" };
const main = byId("main");
const field = byId("q");

let leave = null;
let current = { view: "", keys: {} };
let visits = 0;
const listeners = new Set();
let latest = null;

// The functions of the frame that views use.
const frame = {
  field,
  typing: false, // Whether the view is opened by typing into the field.
  state: () => latest,
  onState(listener) {
    listeners.add(listener);
    if (latest) listener(latest);
    return () => listeners.delete(listener);
  },
  title(text) {
    document.title = text ? `${text} · Lookfar` : "Lookfar";
  },
};

function parseLocation() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: Object.hasOwn(VIEWS, path) ? path : "search", params: new URLSearchParams(query) };
}

async function show() {
  const { view, params } = parseLocation();
  const visit = ++visits;
  if (current.view === view && current.update) {
    current.update(params);
    return;
  }
  leave?.();
  leave = null;
  for (const item of byId("views").children) {
    const isCurrent = item.dataset.view === (PARENTS[view] || view);
    if (isCurrent) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.body.dataset.view = view;
  frame.title(view === "search" ? "" : TITLES[view]);
  if (view !== "search" && view !== "read") field.value = "";
  try {
    const loading = VIEWS[view]();
    // The search view is loaded already, so show it without waiting: no letter gets lost.
    const module = loading instanceof Promise ? await loading : loading;
    if (visit !== visits) return;
    const shown = module.show(main, params, frame);
    current = { view, keys: shown.keys || {}, update: shown.update };
    leave = shown.leave;
  } catch (error) {
    replace(main, problem(error));
    current = { view: "", keys: {} };
  }
  window.scrollTo(0, 0);
}

// --- keys ---------------------------------------------------------------------------------------

let prefix = -Infinity;
const isTextInput = (node) => node.closest?.("input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  const { key, target } = event;
  if (isTextInput(target)) {
    if (target === field && current.keys.field?.(event)) event.preventDefault();
    else if (key === "Escape") {
      event.preventDefault(); // A search field would discard what was typed.
      target.blur();
    }
    return;
  }
  const targetView = performance.now() - prefix < 1500 && Object.hasOwn(GO, key) ? GO[key] : undefined;
  prefix = -Infinity;
  if (targetView) {
    location.hash = link(targetView);
    announce(TITLES[targetView]);
  } else if (key === "g") {
    prefix = performance.now();
  } else if (key === "/") {
    field.focus();
    field.select();
  } else if (key === "?") {
    byId("help").showModal();
  } else if (key === "t") {
    nextTheme();
  } else if (!current.keys[key]?.(event)) {
    return;
  }
  event.preventDefault();
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
byId("keys").addEventListener("click", () => byId("help").showModal());
byId("help-close").addEventListener("click", () => byId("help").close());

// A click into the field selects its words, so that typing replaces them. A second click places the
// cursor, and so does one that has selected a part.
let entering = false;
field.addEventListener("pointerdown", () => { entering = document.activeElement !== field; });
field.addEventListener("click", () => {
  if (entering && field.selectionStart === field.selectionEnd) field.select();
  entering = false;
});
byId("clear").addEventListener("click", () => {
  field.value = "";
  field.focus();
  field.dispatchEvent(new Event("input"));
});

byId("ask").addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", () => {
  if (current.view === "search") return current.keys.typed();
  // Going back once returns to where the reader was, whatever is typed now.
  history.pushState(null, "", link("search", { q: field.value }));
  frame.typing = true;
  show();
  frame.typing = false;
});

// --- theme ----------------------------------------------------------------------------------------

const THEMES = { auto: ["◐", "system"], light: ["○", "light"], dark: ["●", "dark"] };

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = THEMES[theme][0];
  byId("theme").setAttribute("aria-label", `Theme: ${THEMES[theme][1]}`);
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  localStorage.setItem("lookfar.theme", next);
  applyTheme(next);
  announce(`Theme: ${THEMES[next][1]}`);
}

byId("theme").addEventListener("click", nextTheme);
const chosen = localStorage.getItem("lookfar.theme");
applyTheme(Object.hasOwn(THEMES, chosen) ? chosen : "auto");

// --- index status ---------------------------------------------------------------------------------

function showStatus(state, text) {
  byId("pulse").dataset.state = state;
  byId("pulse-text").textContent = text;
}

follow((state) => {
  latest = state;
  const { collections } = state;
  const busy = collections.find((collection) => collection.building_since);
  const documents = collections.reduce((sum, collection) => sum + collection.documents, 0);
  if (busy?.progress?.total_files) showStatus("busy", `indexing ${Math.floor((100 * busy.progress.files) / busy.progress.total_files)} %`);
  else if (busy) showStatus("busy", "indexing");
  else if (collections.some((collection) => collection.failure || collection.failures.length)) showStatus("bad", "has problems");
  else if (collections.some((collection) => collection.held !== null)) showStatus("held", "rolled back");
  else if (!collections.some((collection) => collection.indexed)) showStatus("idle", "not indexed yet");
  else showStatus("good", plural(documents, "document"));
  for (const listener of listeners) listener(state);
}, () => showStatus("bad", "not connected"));

window.addEventListener("hashchange", show);
show();
