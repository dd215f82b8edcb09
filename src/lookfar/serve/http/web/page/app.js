// The frame: which view is shown, the keys that work everywhere, the colours, the pulse.

import { announce, byId, h, link, problem, replace, several } from "/web/dom.js";
import { follow } from "/web/api.js";
import * as search from "/web/search.js";

const VIEWS = {
  search: () => search,
  read: () => import("/web/read.js"),
  graph: () => import("/web/graph.js"),
  generations: () => import("/web/generations.js"),
  health: () => import("/web/health.js"),
  evaluation: () => import("/web/evaluation.js"),
};
const TITLES = { search: "Search", read: "Reading", graph: "Graph", generations: "History", health: "Health", evaluation: "Quality" };
const GO = { s: "search", g: "graph", t: "generations", h: "health", e: "evaluation" };
const main = byId("main");
const field = byId("q");

let leave = null;
let current = { view: "", keys: {} };
let visits = 0;
const listeners = new Set();
let latest = null;

// What a view may use of the frame.
const frame = {
  field,
  state: () => latest,
  onState(tell) {
    listeners.add(tell);
    if (latest) tell(latest);
    return () => listeners.delete(tell);
  },
  title(text) {
    document.title = text ? `${text} · Lookfar` : "Lookfar";
  },
};

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: Object.hasOwn(VIEWS, path) ? path : "search", params: new URLSearchParams(query) };
}

async function show() {
  const { view, params } = place();
  const visit = ++visits;
  if (current.view === view && current.update) {
    current.update(params);
    return;
  }
  leave?.();
  leave = null;
  for (const each of byId("views").children) {
    const here = each.dataset.view === view || (view === "read" && each.dataset.view === "search");
    if (here) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  document.body.dataset.view = view;
  frame.title(view === "search" ? "" : TITLES[view]);
  if (view !== "search" && view !== "read") field.value = "";
  try {
    const module = await VIEWS[view]();
    if (visit !== visits) return;
    const made = module.show(main, params, frame);
    current = { view, keys: made.keys || {}, update: made.update };
    leave = made.leave;
  } catch (error) {
    replace(main, problem(error));
    current = { view: "", keys: {} };
  }
  window.scrollTo(0, 0);
}

// --- keys ---------------------------------------------------------------------------------------

let prefix = -Infinity;
const writes = (node) => node.closest?.("input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  const { key, target } = event;
  if (writes(target)) {
    if (target === field && current.keys.field?.(event)) event.preventDefault();
    else if (key === "Escape") target.blur();
    return;
  }
  const wanted = performance.now() - prefix < 1500 && Object.hasOwn(GO, key) ? GO[key] : undefined;
  prefix = -Infinity;
  if (wanted) {
    location.hash = link(wanted);
    announce(TITLES[wanted]);
  } else if (key === "g") {
    prefix = performance.now();
  } else if (key === "/") {
    field.focus();
    field.select();
  } else if (key === "?") {
    byId("help").showModal();
  } else if (key === "t") {
    turn();
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

byId("ask").addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", () => {
  if (place().view === "search") current.keys.typed?.();
  else location.hash = link("search", { q: field.value });
});

// --- colours --------------------------------------------------------------------------------------

const SCHEMES = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] };

function paint(scheme) {
  document.documentElement.dataset.theme = scheme;
  byId("theme").textContent = SCHEMES[scheme][0];
  byId("theme").setAttribute("aria-label", `Colours: ${SCHEMES[scheme][1]}`);
}

function turn() {
  const names = Object.keys(SCHEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
  localStorage.setItem("lookfar.theme", next);
  paint(next);
  announce(`Colours: ${SCHEMES[next][1]}`);
}

byId("theme").addEventListener("click", turn);
const chosen = localStorage.getItem("lookfar.theme");
paint(Object.hasOwn(SCHEMES, chosen) ? chosen : "auto");

// --- the pulse ------------------------------------------------------------------------------------

function beat(state, text) {
  byId("pulse").dataset.state = state;
  byId("pulse-text").textContent = text;
}

follow((state) => {
  latest = state;
  const all = state.collections;
  const busy = all.find((each) => each.building_since);
  const documents = all.reduce((sum, each) => sum + each.documents, 0);
  if (busy?.progress?.total_files) beat("busy", `indexing ${Math.floor((100 * busy.progress.files) / busy.progress.total_files)} %`);
  else if (busy) beat("busy", "indexing");
  else if (all.some((each) => each.failure || each.failures.length)) beat("bad", "needs a look");
  else if (all.some((each) => each.held !== null)) beat("held", "held back");
  else if (!all.some((each) => each.indexed)) beat("idle", "not indexed yet");
  else beat("good", several(documents, "document"));
  for (const tell of listeners) tell(state);
}, () => beat("bad", "not connected"));

window.addEventListener("hashchange", show);
show();
