// A result as a row of the list, and the selected one with the reasons for its score.

import { age, announce, change, h, link, marked, name, replace, visibleText } from "/web/dom.js";
import { KIND_NAMES, readLink } from "/web/query.js";
import { explanation, spark } from "/web/chart.js";

export const keyOf = (hit) => [hit.collection, hit.uri, hit.chunk_id ?? "", hit.start ?? ""].join("\n");

// Commits (docs@git) and memories belong to their folder. Two folders may hold the same path.
export const folderOf = (collection) => collection.split("@")[0];

// The page, slide, range or cell of an extracted text, otherwise the lines; a listed document is whole.
const partOf = (hit) => (hit.place ? `#${hit.place}` : hit.start_line ? `:${hit.start_line}–${hit.end_line}` : "");

const place = (hit) => [name(hit.uri), h("span", { class: "line" }, visibleText(partOf(hit)))];

// The answering sentence, then what follows it.
function excerpt(hit) {
  const end = hit.answer_end || 0;
  const text = Array.from(hit.excerpt);
  const marks = hit.excerpt_marks || [];
  if (!end) return marked(hit.excerpt, marks);
  const [answer, rest] = [text.slice(0, end).join(""), text.slice(end).join("")];
  return [h("strong", { class: "answer" }, marked(answer, marks.filter(([, until]) => until <= end))),
    marked(rest, marks.filter(([from]) => from >= end).map(([from, until]) => [from - end, until - end]))];
}

// context: { wanted(), best(), several(), onFocus(index), onOpen() }
export function makeRow(context) {
  const title = h("a", { class: "title", on: { focus: () => context.onFocus(row.index), click: context.onOpen } });
  const [tags, worth] = [h("span", { class: "tags" }), h("span", { class: "worth" })];
  const [crumbs, text] = [h("p", { class: "crumbs" }), h("p", { class: "excerpt" })];
  const element = h("li", { class: "hit", on: { mousedown: () => context.onFocus(row.index) } },
    h("div", { class: "head" }, title, tags, worth), crumbs, text);
  const row = { element, update };

  let shown = "";
  function update(hit) {
    const signature = JSON.stringify([hit, context.best(), context.several(), context.wanted()]);
    if (signature === shown) return;
    shown = signature;
    const heads = (hit.heading_path || []).filter((heading) => !heading.startsWith("(root)"));
    const label = hit.title || heads[0] || hit.uri.split("/").pop();
    change(title, { href: readLink(hit, context.wanted()) });
    replace(title, name(label));
    replace(tags,
      context.several() ? h("span", { class: "tag", title: "Folder" }, name(folderOf(hit.collection))) : null,
      hit.lane === "docs" ? null : h("span", { class: "tag" }, KIND_NAMES[hit.lane] || hit.lane),
      !hit.state || hit.state === "same" ? null : h("span", { class: "tag warn" }, hit.state === "gone" ? "deleted" : `${hit.state} since indexed`),
      hit.flags.length ? h("span", { class: "tag warn" }, "hidden characters") : null);
    replace(worth, hit.explanation ? spark(hit.score, hit.explanation, context.best() || hit.score) : h("span", { class: "when" }, age(hit.modified)));
    replace(crumbs, place(hit), heads.filter((heading, at) => at || heading !== label).map((heading) => [" › ", name(heading)]),
      hit.explanation ? null : hit.tags.slice(0, 8).map((tag) => [" ", h("span", { class: "tag" }, name(`#${tag}`))]));
    replace(text, excerpt(hit));
  }
  return row;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Citation copied.");
  } catch {
    announce("The browser does not allow copying.");
  }
}

let unfolded = false; // Whether the reader wants to see scores; the next result shows them as well.

function whyDisclosure(hit) {
  const details = h("details", { class: "why", open: unfolded, on: { toggle: () => { unfolded = details.open; } } },
    h("summary", null, "Why this result?"), h("h3", null, "Score ", h("span", { class: "value" }, hit.score.toFixed(3))), explanation(hit.explanation));
  return details;
}

export function drawInspector(inspector, hit, { wanted, several, onOpen }) {
  const heads = (hit.heading_path || []).filter((heading) => !heading.startsWith("(root)"));
  const symbol = hit.lane === "code" && heads.length ? `${hit.uri}#${heads.at(-1)}` : "";
  replace(inspector,
    h("h2", null, name(heads.at(-1) || hit.title || hit.uri)),
    h("p", { class: "crumbs" }, place(hit)),
    h("p", { class: "facts" }, [several() ? folderOf(hit.collection) : "", hit.language, hit.modified ? `changed ${age(hit.modified)}` : "", ...hit.tags.map((tag) => `#${tag}`)]
      .filter(Boolean).map((fact, at) => [at ? " · " : "", name(fact)])),
    h("div", { class: "actions" },
      h("a", { class: "button main", href: readLink(hit, wanted()), on: { click: onOpen } }, "Open"),
      hit.cite ? h("button", { type: "button", on: { click: () => copy(hit.cite) } }, "Copy citation") : null,
      h("a", { class: "button", href: link("graph", { c: hit.collection, around: hit.uri, depth: 1 }) }, "Show in graph"),
      symbol && !/[,\s]/.test(heads.at(-1)) ? h("a", { class: "button", href: link("graph", { c: hit.collection, symbol }) }, "Calls") : null,
      hit.lane === "docs" || hit.lane === "code" ? h("a", { class: "button", href: link("earlier", { c: hit.collection, u: hit.uri }) }, "Earlier versions") : null),
    hit.also?.length ? [h("h3", null, "Also at"), h("ul", { class: "plain" }, hit.also.map((other) =>
      h("li", null, h("a", { href: readLink(other, wanted()) }, name(`${other.uri}:${other.start_line}`)))))] : null,
    hit.text ? [h("h3", null, "Passage"),
      h("pre", { class: "passage", tabindex: "0", "aria-label": "Passage" }, marked(hit.text, hit.marks), hit.truncated || hit.text.length >= 1600 ? "…" : "")]
      : [h("h3", null, "Begins"), h("p", { class: "passage" }, visibleText(hit.excerpt))],
    hit.explanation ? whyDisclosure(hit) : null);
}
