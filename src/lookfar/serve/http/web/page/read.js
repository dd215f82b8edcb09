// A document as it is on disk, line by line as it is written: headings, code and links are dressed
// up, but no character is left out, so a cited span is marked exactly where it stands.

import { announce, h, link, name, problem, replace, several, shown, units } from "/web/dom.js";
import { ask } from "/web/api.js";

const KINDS = {
  backlinks: "Linked from", links: "Links to", similar: "Similar", community: "Same community",
  memories: "Remembered in", commits: "Commits", definitions: "Defined", mentions: "Mentioned",
};
const ORDER = ["backlinks", "links", "similar", "community", "memories", "commits"];
const STATES = {
  moved: "This passage has moved within its file since it was cited.",
  changed: "This file has changed since it was indexed or cited.",
  gone: "This file is gone from the disk.",
};
// What may repeat is bounded and ends where another match could begin, so that no hostile line is
// read over and over.
const LINK = /!?\[[^[\]\n]{0,400}\]\(\s{0,9}<?([^()<>\s#]{0,1000})(?:#[^()<>\s]{0,400})?>?(?:\s[^)\n]{0,400})?\)|!?\[\[([^[\]|#\n]{0,400})(?:[|#][^[\]\n]{0,400})?\]\]/g;
const BOLD = /\*\*[^*\n]{1,1000}\*\*|(?<!\w)__[^_\n]{1,1000}__(?!\w)/g;
const LONGEST = 5000;

export function show(main, params, frame) {
  const given = { collection: params.get("c") || "", uri: params.get("u") || "", query: params.get("q") || "" };
  const [from, until] = [Number(params.get("s")) || 0, Number(params.get("e")) || 0];
  const leaving = new AbortController();
  frame.field.value = given.query;
  let sections = [];
  let lines = [];

  const article = h("article", { class: "sheet", "aria-label": "Document" }, h("p", { class: "empty" }, "One moment…"));
  const outline = h("nav", { class: "outline", "aria-label": "Outline" });
  const beside = h("aside", { class: "beside", "aria-label": "Related" });
  const back = given.query ? link("search", { q: given.query }) : "#/search";
  replace(main, h("div", { class: "reader" }, outline, article, beside));
  load();

  async function load() {
    try {
      const target = from ? `${given.uri}:${from}-${until || from}` : given.uri;
      const found = await ask("document", { target, collection: given.collection, query: given.query }, leaving.signal);
      frame.title(found.title || found.uri);
      draw(found);
    } catch (error) {
      if (error.name !== "AbortError") replace(article, h("h1", { class: "unseen" }, "Document"), problem(error));
    }
  }

  function draw(found) {
    const facts = [found.outline?.language, found.outline ? several(found.outline.lines, "line") : "", ...(found.outline?.tags || []).map((each) => `#${each}`)].filter(Boolean);
    const body = h("div", { class: `text ${found.outline?.language === "markdown" ? "prose" : "mono"}` });
    lines = textOf(found);
    body.append(...lines);
    replace(article,
      h("header", null,
        h("p", { class: "crumbs" }, h("a", { href: back }, given.query ? "‹ Results" : "‹ Search"), " ", name(found.collection), " / ", name(found.uri)),
        h("h1", null, name(found.title || found.uri.split("/").pop())),
        h("p", { class: "facts" }, facts.map((each, at) => [at ? " · " : "", name(each)]), " · ",
          h("a", { href: link("graph", { c: found.collection, around: found.uri }) }, "in the graph")),
        Object.hasOwn(STATES, found.state) ? h("p", { class: "note-line warn" }, STATES[found.state]) : null,
        found.flags.length ? h("p", { class: "note-line warn" }, "It holds characters that reorder or hide text. They are shown by name.") : null,
        found.truncated ? h("p", { class: "note-line" }, "Only its beginning is shown: it is very long.") : null),
      body);
    drawOutline(found);
    drawBeside(found);
    const first = article.querySelector(".part") || article.querySelector("mark");
    const line = first?.closest(".ln");
    if (line && line.dataset.n > 12) line.scrollIntoView({ block: "start" });
    announce(`${found.title || found.uri} is open.`);
  }

  function drawOutline(found) {
    sections = found.outline?.sections || [];
    if (!sections.length) return;
    replace(outline, h("h2", null, "Outline"), h("ul", null, sections.slice(0, 500).map((each, at) =>
      h("li", { class: `deep${Math.min(each.level, 6)}` },
        h("button", { type: "button", "data-at": at, on: { click: () => go(each.start_line) } }, name(each.title || "(untitled)"))))));
  }

  function drawBeside(found) {
    const groups = ORDER.filter((kind) => found.related.some((each) => each.kind === kind));
    replace(beside, groups.length ? null : h("p", { class: "empty" }, "Nothing is related to it."), groups.map((kind) => {
      const entries = found.related.filter((each) => each.kind === kind);
      return h("section", null,
        h("h2", null, KINDS[kind], " ", h("span", { class: "count" }, found.totals[kind] ?? entries.length)),
        h("ul", { class: "related" }, entries.slice(0, 20).map((each) => h("li", null,
          each.uri ? h("a", { href: link("read", { c: each.collection || found.collection, u: each.uri, ...(kind === "backlinks" && each.line ? { s: each.line, e: each.line } : {}) }) }, name(each.title || each.uri))
            : h("span", { class: "ghost", title: "There is no such document" }, name(each.target)),
          each.context && kind !== "links" ? h("p", { class: "small" }, shown(each.context)) : null))));
    }));
  }

  function textOf(found) {
    const { text } = found;
    const to = units(text);
    const marks = found.marks.map(([a, b]) => [to(a), to(b)]);
    const part = found.part ? found.part.map(to) : null;
    const markdown = found.outline?.language === "markdown";
    const leads = new Map(found.related.filter((each) => each.kind === "links" && each.uri).map((each) => [each.target, each]));
    const made = [];
    let [at, fence, front, mark] = [0, "", false, 0];
    const all = text.split("\n");
    if (all.at(-1) === "") all.pop();
    all.forEach((line, index) => {
      const end = at + line.length;
      let kind = "";
      if (markdown) {
        const opened = /^\s*(```+|~~~+)/.exec(line);
        if (/^---\s*$/.test(line) && (index === 0 || front)) {
          front = index === 0;
          kind = "code";
        } else if (front) kind = "code";
        else if (fence) {
          kind = "code";
          if (opened && opened[1].startsWith(fence) && !line.trim().slice(opened[1].length)) fence = "";
        } else if (opened) [fence, kind] = [opened[1], "code"];
        else if (/^#{1,6}\s/.test(line)) kind = `head h${/^#+/.exec(line)[0].length}`;
        else if (/^\s*>/.test(line)) kind = "quote";
        else if (/^\s*\|/.test(line) || /^( {4}|\t)/.test(line)) kind = "code";
      }
      const spans = [];
      while (mark < marks.length && marks[mark][1] <= at) mark += 1;
      for (let each = mark; each < marks.length && marks[each][0] < end; each += 1) spans.push(["mark", ...marks[each]]);
      if (part && part[0] < end && part[1] > at) spans.push(["part", ...part]);
      if (markdown && kind !== "code" && line.length <= LONGEST) {
        for (const match of line.matchAll(LINK)) {
          const lead = leads.get(decoded(match[1] ?? match[2]));
          if (lead) spans.push(["link", at + match.index, at + match.index + match[0].length, lead]);
        }
        for (const [sort, start, length] of dressed(line)) spans.push([sort, at + start, at + start + length]);
      }
      const whole = part && part[0] <= at && part[1] >= end && part[1] > at;
      made.push(h("div", { class: `ln ${kind}${whole ? " within" : ""}`, "data-n": index + 1 },
        line ? pieces(line, at, spans, found) : h("br")));
      at = end + 1;
    });
    return made;
  }

  const decoded = (target) => {
    try {
      return decodeURIComponent(target);
    } catch {
      return target;
    }
  };

  // Code between equal runs of backticks, and what is bold outside of it.
  function dressed(line) {
    const runs = [...line.matchAll(/`+/g)];
    const [next, last] = [[], new Map()];
    for (let each = runs.length - 1; each >= 0; each -= 1) {
      next[each] = last.get(runs[each][0].length);
      last.set(runs[each][0].length, each);
    }
    const found = [];
    let [rest, copied] = ["", 0];
    for (let each = 0; each < runs.length; each += 1) {
      if (next[each] === undefined) continue;
      const start = runs[each].index;
      each = next[each];
      const end = runs[each].index + runs[each][0].length;
      found.push(["tick", start, end - start]);
      rest += line.slice(copied, start) + "`".repeat(end - start);
      copied = end;
    }
    rest += line.slice(copied);
    for (const match of rest.matchAll(BOLD)) found.push(["bold", match.index, match[0].length]);
    return found;
  }

  // A line, cut wherever something begins or ends. Spans of one kind come in their order.
  function pieces(line, offset, spans, found) {
    if (!spans.length) return shown(line);
    const kinds = { mark: [], tick: [], bold: [], part: [], link: [] };
    for (const span of spans) kinds[span[0]].push(span);
    const far = { mark: 0, tick: 0, bold: 0, part: 0, link: 0 };
    const cuts = [...new Set([offset, offset + line.length, ...spans.flatMap(([, a, b]) => [a, b])])]
      .filter((cut) => cut >= offset && cut <= offset + line.length).sort((a, b) => a - b);
    return cuts.slice(0, -1).map((start, index) => {
      const has = (kind) => {
        while (kinds[kind][far[kind]]?.[2] <= start) far[kind] += 1;
        const first = kinds[kind][far[kind]];
        return first && first[1] <= start ? first : null;
      };
      let node = shown(line.slice(start - offset, cuts[index + 1] - offset));
      if (has("mark")) node = h("mark", null, node);
      if (has("tick")) node = h("code", null, node);
      if (has("bold")) node = h("strong", null, node);
      if (has("part")) node = h("span", { class: "part" }, node);
      const lead = has("link")?.[3];
      if (lead) node = h("a", { href: link("read", { c: lead.collection || found.collection, u: lead.uri }) }, node);
      return node;
    });
  }

  function go(line) {
    const target = lines[line - 1];
    if (!target) return;
    target.scrollIntoView({ block: "start" });
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  }

  // The section that is being read.
  let waiting = 0;
  const follow = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      const top = 140;
      let now = -1;
      sections.some((each, at) => {
        const line = lines[each.start_line - 1];
        if (!line || line.getBoundingClientRect().top > top) return true;
        now = at;
        return false;
      });
      for (const button of outline.querySelectorAll("button")) {
        if (Number(button.dataset.at) === now) button.setAttribute("aria-current", "location");
        else button.removeAttribute("aria-current");
      }
    });
  };
  window.addEventListener("scroll", follow, { passive: true });

  return {
    leave() {
      leaving.abort();
      window.removeEventListener("scroll", follow);
    },
    keys: {
      Escape: () => ((location.hash = back), true),
      j: () => (window.scrollBy({ top: 120 }), true),
      k: () => (window.scrollBy({ top: -120 }), true),
    },
  };
}
