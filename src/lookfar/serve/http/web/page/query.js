// Convert a search between its address, the request to the server, and links to results.

import { link } from "/web/dom.js";

export const PAGE = 12; // Rows that are asked for at once: about as many as a tall window shows.
export const AGES = { day: ["past day", 1], week: ["past week", 7], month: ["past month", 31], year: ["past year", 366] };
export const KIND_NAMES = { docs: "Documents", code: "Code", commits: "Commits", memory: "Memories", documents: "Inserted" };
// Filters that can have several values at once.
export const MANY = ["collection", "lane", "language", "tag", "where"];
const ONE = ["path", "age", "after", "before"];
const DAY = 86400000;

export const parseSearch = (params) => ({
  q: params.get("q") || "", mode: params.get("mode") || "",
  ...Object.fromEntries(ONE.map((kind) => [kind, params.get(kind) || ""])),
  ...Object.fromEntries(MANY.map((kind) => [kind, params.getAll(kind)])),
});

// Every filter that is set, as pairs of its kind and value.
export const listFilters = (wanted) => [
  ...MANY.flatMap((kind) => wanted[kind].map((value) => [kind, value])),
  ...ONE.filter((kind) => wanted[kind]).map((kind) => [kind, wanted[kind]]),
];

export const isEmpty = (wanted) => !wanted.q.trim() && !listFilters(wanted).length;

export function searchBody(wanted, offset, depth) {
  const since = Object.hasOwn(AGES, wanted.age) ? new Date(Date.now() - AGES[wanted.age][1] * DAY).toISOString().slice(0, 10) : wanted.after;
  return {
    query: wanted.q, mode: wanted.mode, prefix: wanted.path, collections: wanted.collection, lanes: wanted.lane,
    languages: wanted.language, tags: wanted.tag, after: since, before: wanted.before, offset, limit: PAGE, depth,
    ...(wanted.where.length ? { where: wanted.where } : {}),
  };
}

// The link contains the filters, as "w", so that going back shows the same list.
export const readLink = (hit, wanted) => link("read", {
  c: hit.collection, u: hit.uri, s: hit.start_line, e: hit.end_line, q: wanted.q,
  w: link("", { ...wanted, q: "" }).slice("#/?".length),
});
