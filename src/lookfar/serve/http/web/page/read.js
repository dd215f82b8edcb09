// A document as it is on disk, line by line. Headings, code and links are styled, but every character
// is visibleText, so a cited span is marked at its exact position.

import { announce, h, link, name, problem, replace, plural, visibleText, utf16Offsets } from "/web/dom.js";
import { ask } from "/web/api.js";

const KINDS = {
  backlinks: "Linked from", links: "Links to", similar: "Similar", community: "Same community",
  memories: "Remembered in", commits: "Commits", definitions: "Defined", mentions: "Mentioned",
  callers: "Called by", callees: "Calls", tests: "Tested by",
};
const ORDER = ["callers", "callees", "tests", "backlinks", "links", "similar", "community", "memories", "commits"];
const STATES = {
  moved: "This passage has moved within its file since it was cited.",
  changed: "This file has changed since it was indexed or cited.",
  gone: "This file no longer exists.",
};
// Repetitions are bounded and end where another match could begin, so that a hostile line cannot
// cause backtracking.
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

  const article = h("article", { class: "sheet", "aria-label": "Document" }, h("p", { class: "empty" }, "Loading…"));
  const outline = h("nav", { class: "outline", "aria-label": "Outline" });
  const beside = h("aside", { class: "beside", "aria-label": "Related" });
  const filters = params.get("w");
  const back = `${link("search", { q: given.query })}${given.query && filters ? `&${filters}` : ""}`;
  replace(main, h("div", { class: "reader" }, outline, article, beside));
  load();

  async function load() {
    try {
      const target = from ? `${given.uri}:${from}-${until || from}` : given.uri;
      const page = await ask("document", { target, collection: given.collection, query: given.query }, leaving.signal);
      frame.title(page.title || page.uri);
      draw(page);
    } catch (error) {
      if (error.name !== "AbortError") replace(article, h("h1", { class: "unseen" }, "Document"), problem(error));
    }
  }

  function draw(page) {
    const facts = [page.outline?.language, page.outline ? plural(page.outline.lines, "line") : "", ...(page.outline?.tags || []).map((tag) => `#${tag}`)].filter(Boolean);
    const body = h("div", { class: `text ${page.outline?.language === "markdown" ? "prose" : "mono"}` });
    lines = renderLines(page);
    body.append(...lines);
    replace(article,
      h("header", null,
        h("p", { class: "crumbs" }, h("a", { href: back }, given.query ? "‹ Results" : "‹ Search"), " ", name(page.collection), " / ", name(page.uri)),
        h("h1", null, name(page.title || page.uri.split("/").pop())),
        h("p", { class: "facts" }, facts.map((fact, at) => [at ? " · " : "", name(fact)]), " · ",
          h("a", { href: link("graph", { c: page.collection, around: page.uri }) }, "in the graph")),
        Object.hasOwn(STATES, page.state) ? h("p", { class: "note-line warn" }, STATES[page.state]) : null,
        page.flags.length ? h("p", { class: "note-line warn" }, "It contains characters that reorder or hide text. Their code points are shown.") : null,
        page.truncated ? h("p", { class: "note-line" }, "The document is very long; only its beginning is shown.") : null),
      body);
    drawOutline(page);
    drawRelated(page);
    const first = article.querySelector(".part") || article.querySelector("mark");
    const line = first?.closest(".ln");
    if (line && line.dataset.n > 12) line.scrollIntoView({ block: "start" });
    announce(`${page.title || page.uri} is open.`);
  }

  function drawOutline(page) {
    sections = page.outline?.sections || [];
    if (!sections.length) return;
    replace(outline, h("h2", null, "Outline"), h("ul", null, sections.slice(0, 500).map((section, at) =>
      h("li", { class: `deep${Math.min(section.level, 6)}` },
        h("button", { type: "button", "data-at": at, on: { click: () => go(section.start_line) } }, name(section.title || "(untitled)"))))));
  }

  function drawRelated(page) {
    const groups = ORDER.filter((kind) => page.related.some((entry) => entry.kind === kind));
    replace(beside, groups.length ? null : h("p", { class: "empty" }, "No related documents."), groups.map((kind) => {
      const entries = page.related.filter((entry) => entry.kind === kind);
      return h("section", null,
        h("h2", null, KINDS[kind], " ", h("span", { class: "count" }, page.totals[kind] ?? entries.length)),
        h("ul", { class: "related" }, entries.slice(0, 20).map((entry) => h("li", null,
          entry.uri ? h("a", { href: link("read", { c: entry.collection || page.collection, u: entry.uri, ...((kind === "backlinks" || "certain" in entry) && entry.line ? { s: entry.line, e: entry.line } : {}) }) }, name(entry.title || entry.uri), entry.certain === false ? " (by name)" : "")
            : h("span", { class: "ghost", title: "This document does not exist" }, name(entry.target)),
          entry.context && kind !== "links" ? h("p", { class: "small" }, visibleText(entry.context)) : null))));
    }));
  }

  function renderLines(page) {
    const { text } = page;
    const toUtf16 = utf16Offsets(text);
    const marks = page.marks.map(([a, b]) => [toUtf16(a), toUtf16(b)]);
    const part = page.part ? page.part.map(toUtf16) : null;
    const markdown = page.outline?.language === "markdown";
    const targets = new Map(page.related.filter((entry) => entry.kind === "links" && entry.uri).map((entry) => [entry.target, entry]));
    const rendered = [];
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
      for (let next = mark; next < marks.length && marks[next][0] < end; next += 1) spans.push(["mark", ...marks[next]]);
      if (part && part[0] < end && part[1] > at) spans.push(["part", ...part]);
      if (markdown && kind !== "code" && line.length <= LONGEST) {
        for (const match of line.matchAll(LINK)) {
          const target = targets.get(decode(match[1] ?? match[2]));
          if (target) spans.push(["link", at + match.index, at + match.index + match[0].length, target]);
        }
        for (const [sort, start, length] of inlineStyles(line)) spans.push([sort, at + start, at + start + length]);
      }
      const whole = part && part[0] <= at && part[1] >= end && part[1] > at;
      rendered.push(h("div", { class: `ln ${kind}${whole ? " within" : ""}`, "data-n": index + 1 },
        line ? pieces(line, at, spans, page) : h("br")));
      at = end + 1;
    });
    return rendered;
  }

  const decode = (target) => {
    try {
      return decodeURIComponent(target);
    } catch {
      return target;
    }
  };

  // Find inline code between equal runs of backticks, and bold text outside of it.
  function inlineStyles(line) {
    const runs = [...line.matchAll(/`+/g)];
    const [next, last] = [[], new Map()];
    for (let index = runs.length - 1; index >= 0; index -= 1) {
      next[index] = last.get(runs[index][0].length);
      last.set(runs[index][0].length, index);
    }
    const styles = [];
    let [rest, copied] = ["", 0];
    for (let index = 0; index < runs.length; index += 1) {
      if (next[index] === undefined) continue;
      const start = runs[index].index;
      index = next[index];
      const end = runs[index].index + runs[index][0].length;
      styles.push(["tick", start, end - start]);
      rest += line.slice(copied, start) + "`".repeat(end - start);
      copied = end;
    }
    rest += line.slice(copied);
    for (const match of rest.matchAll(BOLD)) styles.push(["bold", match.index, match[0].length]);
    return styles;
  }

  // Split a line wherever a span begins or ends. Spans of one kind are in order.
  function pieces(line, offset, spans, page) {
    if (!spans.length) return visibleText(line);
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
      let node = visibleText(line.slice(start - offset, cuts[index + 1] - offset));
      if (has("mark")) node = h("mark", null, node);
      if (has("tick")) node = h("code", null, node);
      if (has("bold")) node = h("strong", null, node);
      if (has("part")) node = h("span", { class: "part" }, node);
      const target = has("link")?.[3];
      if (target) node = h("a", { href: link("read", { c: target.collection || page.collection, u: target.uri }) }, node);
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

  // Highlight the section that is being read.
  let waiting = 0;
  const follow = () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      const top = 140;
      let now = -1;
      sections.some((section, at) => {
        const line = lines[section.start_line - 1];
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
