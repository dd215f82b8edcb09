// The filters of a search, with how many results each value has. Folders and tags are trees.

import { h, name, number, replace } from "/web/dom.js";
import { AGES, KIND_NAMES, MANY } from "/web/query.js";

const MOST_PROPERTIES = 12;
const MODES = [["", "Both"], ["keyword", "Words"], ["vector", "Meaning"]];

export const nameFilter = (kind, value) => ({
  age: AGES[value]?.[0] || value, after: `since ${value}`, before: `until ${value}`, tag: `#${value}`, lane: KIND_NAMES[value] || value,
}[kind] || value);

// Return the search after one value of a filter was turned on or off.
export function turn(wanted, kind, value) {
  if (!MANY.includes(kind)) return { ...wanted, [kind]: wanted[kind] === value ? "" : value };
  const rest = wanted[kind].filter((other) => other !== value);
  return { ...wanted, [kind]: rest.length < wanted[kind].length ? rest : [...rest, value] };
}

export function createFilters(facets, { wanted, go }) {
  const open = new Set(); // Branches of the trees that were unfolded by hand.
  let drawn = "";

  function draw(given) {
    const now = wanted();
    const signature = JSON.stringify([given, now]);
    if (signature === drawn) return;
    drawn = signature;
    const held = document.activeElement?.dataset?.facet;
    replace(facets,
      now.q ? group("Search by", MODES.map(([value, text]) => choice("mode", value, text))) : null,
      several("Collection", "collection", given.collection || []),
      several("Kind", "lane", given.lane, (value) => KIND_NAMES[value] || value),
      folders(given.path),
      given.tag.length || now.tag.length ? group("Tag", withChosen("tag", given.tag).map((facet) => branch("tag", facet, "", box))) : null,
      properties(given.property || []),
      several("Format", "language", given.language),
      group("Changed", choice("age", "", "any time"),
        Object.entries(AGES).map(([value, [text]]) => choice("age", value, text, given.age.find((facet) => facet.value === value)?.count || 0)),
        h("div", { class: "dates" }, date("after", "from"), date("before", "until"))));
    if (held) facets.querySelector(`[data-facet="${CSS.escape(held)}"]`)?.focus();
  }

  const group = (title, ...parts) => h("fieldset", null, h("legend", null, title), parts);
  const withChosen = (kind, values) => {
    const known = new Set();
    const note = (facet) => { known.add(facet.value); (facet.below || []).forEach(note); };
    values.forEach(note);
    return [...values, ...wanted()[kind].filter((value) => !known.has(value)).map((value) => ({ value, count: 0 }))];
  };
  const several = (title, kind, values, label = (value) => value) => (values.length > 1 || wanted()[kind].length
    ? group(title, withChosen(kind, values).map((facet) => box(kind, facet, label(facet.value)))) : null);

  function box(kind, { value, count }, label) {
    return h("label", { class: "facet" },
      h("input", { type: "checkbox", checked: wanted()[kind].includes(value), "data-facet": `${kind}:${value}`, on: { change: () => go(turn(wanted(), kind, value)) } }),
      h("span", { class: "what" }, name(label)), h("span", { class: "count" }, number(count)));
  }

  // A value with the values below it, which a small button unfolds.
  function branch(kind, facet, above, leaf) {
    const key = `${kind}:${facet.value}`;
    const label = facet.label ?? facet.value.slice(above.length).replace(/^\//, "");
    if (!facet.below?.length) return h("div", { class: "branch" }, leaf(kind, facet, label));
    const inside = h("div", { class: "below" }, facet.below.map((child) => branch(kind, child, facet.value, leaf)));
    const chosen = kind === "path" ? wanted().path.startsWith(facet.value) : facet.below.some(({ value }) => wanted()[kind].some((other) => other === value || other.startsWith(`${value}/`)));
    const twist = h("button", { class: "twist", type: "button", "aria-label": `Below ${label}`, on: { click: () => show(!open.has(key)) } });
    function show(unfold) {
      if (unfold) open.add(key);
      else open.delete(key);
      twist.setAttribute("aria-expanded", String(unfold));
      inside.toggleAttribute("hidden", !unfold);
    }
    show(open.has(key) || chosen);
    return h("div", { class: "branch" }, leaf(kind, facet, label), twist, inside);
  }

  function folders(values) {
    const { path } = wanted();
    const above = path ? path.split("/").slice(0, -1).map((_, at, parts) => `${parts.slice(0, at + 1).join("/")}/`) : [];
    const inside = values.filter((facet) => facet.value !== path);
    if (!inside.length && !path) return null;
    const step = (value, label, current) => h("button", { class: "facet up", type: "button", "data-facet": `path:${value}`, "aria-current": current ? "true" : undefined, on: { click: () => go({ ...wanted(), path: value }) } }, name(label));
    const folder = (kind, { value, count }, label) => h("button", { class: "facet", type: "button", "data-facet": `path:${value}`, on: { click: () => go({ ...wanted(), path: value }) } },
      h("span", { class: "what" }, name(label)), h("span", { class: "count" }, number(count)));
    return group("Folder", path ? [step("", "All folders"), above.map((value, at) => step(value, value.slice((above[at - 1] || "").length), value === path))] : null,
      h("div", { class: path ? "below" : "" }, inside.map((facet) => branch("path", facet, path, folder))));
  }

  // Values of properties, and a field for conditions such as due<2026-12-01.
  function properties(list) {
    const known = new Set();
    const branches = list.filter((property) => !property.name.startsWith("file.")).slice(0, MOST_PROPERTIES).map((property) => {
      const key = property.name.trim().replace(/\s+/g, "-");
      const below = property.values.map(({ value, count }) => ({ value: `${key}=${value}`, label: value, count }));
      [`has:${key}`, ...below.map(({ value }) => value)].forEach((value) => known.add(value));
      return branch("where", { value: `has:${key}`, label: property.name, count: property.documents, below }, "", (kind, facet) => box(kind, facet, facet.label));
    });
    const others = wanted().where.filter((value) => !known.has(value));
    if (!branches.length && !others.length) return null;
    const field = h("input", { class: "condition", type: "text", placeholder: "due<2026-12-01", "aria-label": "Condition on a property", "data-facet": "where", on: {
      keydown: (event) => event.key === "Enter" && field.value.trim() && go(turn(wanted(), "where", field.value.trim())),
    } });
    return group("Property", branches, others.map((value) => box("where", { value, count: 0 }, value)), field);
  }

  const choice = (kind, value, text, count) => h("label", { class: "facet" },
    h("input", { type: "radio", name: kind, checked: wanted()[kind] === value, "data-facet": `${kind}:${value}`, on: { change: () => go({ ...wanted(), [kind]: value, ...(kind === "age" ? { after: "", before: "" } : {}) }) } }),
    h("span", { class: "what" }, text), count === undefined ? null : h("span", { class: "count" }, number(count)));
  const date = (kind, label) => h("label", { class: "date" }, label,
    h("input", { type: "date", value: wanted()[kind], "data-facet": kind, on: { change: (event) => go({ ...wanted(), [kind]: event.target.value, age: "" }) } }));

  return { draw, forget: () => (drawn = "") };
}
