// A document to read: rendered or as its source, with the cited place marked in both, its outline,
// its properties and related documents, and the way to the other results of a search.

import { announce, h, link, loadStyles, name, number, plural, problem, replace, visibleText } from "/web/dom.js";
import { ask } from "/web/api.js";
import { Paper, Pieces } from "/web/paint.js";
import { hasCode, placeName, Renderer } from "/web/render.js";
import { parseSearch, readLink, searchBody } from "/web/search.js";

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
const VIEW_KEY = "lookfar.reading";
const SHORT = 20000; // A document up to this length is one piece.
const PIECE_CHARS = 5000;
const PIECE_LINES = 100;
const TOP = 150; // Reading begins this far below the top of the window.
const STYLES = { heading: "h", strong: "b", code: "q", link: "l", picture: "l", embed: "l", tag: "l", html: "c", html_block: "c", math: "q" };

const squeeze = (text) => text.replace(/\s+/g, " ").trim();

export function show(main, params, frame) {
  const given = {
    collection: params.get("c") || "", uri: params.get("u") || "", query: params.get("q") || "", heading: params.get("h") || "",
    from: Number(params.get("s")) || 0, until: Number(params.get("e")) || 0,
  };
  const filters = params.get("w") || "";
  const search = `${link("search", { q: given.query })}${given.query && filters ? `&${filters}` : ""}`;
  const leaving = new AbortController();
  frame.field.value = given.query;
  let [page, paper, sections, pieces, renderer, starts] = [null, null, [], null, null, []];
  let source = localStorage.getItem(VIEW_KEY) === "source";
  let hits = [null, null];
  let placed = -1; // Where the page was scrolled to, to show what is cited.

  const article = h("article", { class: "sheet", "aria-label": "Document" }, h("p", { class: "empty" }, "Loading…"));
  const outline = h("nav", { class: "outline", "aria-label": "Outline" });
  const beside = h("aside", { class: "beside", "aria-label": "Related" });
  const body = h("div", { class: "text" });
  const steps = h("nav", { class: "steps", "aria-label": "Results", hidden: true });
  const toggle = h("button", { type: "button", class: "toggle", "aria-keyshortcuts": "s", on: { click: switchView } });
  const title = h("div", { class: "title-line" });
  replace(main, h("div", { class: "reader" }, outline, article, beside));
  load();

  // --- loading --------------------------------------------------------------------------------------

  async function load() {
    try {
      const lines = given.from ? `:${given.from}-${given.until || given.from}` : "";
      const target = `${given.uri}${lines || (given.heading ? `#${given.heading}` : "")}`;
      const [answer] = await Promise.all([
        ask("document", { target, collection: given.collection, query: given.query, render: true }, leaving.signal), loadStyles("/web/read.css")]);
      if (leaving.signal.aborted) return;
      page = answer;
      frame.title(page.title || page.uri);
      const part = given.heading ? null : page.part; // A link leads to a heading; it does not cite it.
      paper = new Paper({ text: page.text, marks: page.marks, part });
      sections = page.outline?.sections || [];
      // The pages of a text without headings are its outline.
      if (!sections.length) sections = (page.tree || []).filter((node) => node[0] === "place").map((node) => ({ level: 1, title: placeName(node[4].label), start: node[1] }));
      draw();
      await colour();
    } catch (error) {
      if (error.name !== "AbortError") replace(article, h("h1", { class: "unseen" }, "Document"), problem(error));
    }
    if (given.query) findHits();
  }

  // Colour code after it is readable, then make the rest of a long document.
  async function colour() {
    const code = page.tree ? page.tree.some(hasCode) : page.outline?.language;
    try {
      if (!code || !page.text.trim()) return;
      const answer = await ask("highlight", { target: page.uri, collection: page.collection, sha256: page.sha256 }, leaving.signal);
      if (answer.sha256 !== page.sha256 || !answer.tokens.length) return;
      paper.colour(answer.tokens);
      if (page.tree && !source) for (const code of body.querySelectorAll(".code code")) code.repaint?.();
      else pieces.refresh();
      // Colours do not change the height of lines, but the browser may have scrolled.
      if (scrollY === placed) showPlace();
    } catch {
      // Code without colours is still readable.
    } finally {
      article.dataset.coloured = "";
      pieces.fillRest();
    }
  }

  async function findHits() {
    const wanted = parseSearch(new URLSearchParams(`${filters}&${new URLSearchParams({ q: given.query })}`));
    try {
      const answer = await ask("search", { ...searchBody(wanted, 0, 100), limit: 100 }, leaving.signal);
      const at = answer.hits.findIndex((hit) => hit.uri === given.uri && hit.collection === (page?.collection ?? hit.collection)
        && (!given.from || hit.start_line === given.from));
      if (at < 0) return;
      hits = [answer.hits[at - 1], answer.hits[at + 1]].map((hit) => (hit ? readLink(hit, wanted) : null));
      const step = (address, text, label, key) => (address
        ? h("a", { class: "button", href: address, "aria-label": label, title: `${label} (${key})`, "aria-keyshortcuts": key }, text)
        : h("span", { class: "button off", "aria-hidden": "true" }, text));
      replace(steps, step(hits[0], "‹", "Previous result", "["),
        h("span", null, `${number(at + 1)} of ${number(answer.total)}${answer.more ? "+" : ""}`),
        step(hits[1], "›", "Next result", "]"));
      steps.hidden = false;
    } catch {
      // The document can be read without the list it was found in.
    }
  }

  // --- the frame around the text --------------------------------------------------------------------

  function draw() {
    const note = (text, kind = "") => h("p", { class: `note-line ${kind}` }, text);
    replace(article,
      h("header", null,
        h("div", { class: "above" }, crumbs(), steps),
        title,
        facts(),
        Object.hasOwn(STATES, page.state) ? note(STATES[page.state], "warn") : null,
        page.flags.length ? note("It contains characters that reorder or hide text. Their code points are shown.", "warn") : null,
        page.warnings.map((warning) => note(visibleText(warning))),
        page.missing ? note(["There is no heading ", name(page.missing), " in this document."]) : null,
        page.truncated ? note("The document is very long; only its beginning is shown.") : null,
        properties()),
      body);
    drawBody();
    drawOutline();
    drawRelated();
    showPlace();
    announce(`${page.title || page.uri} is open.`);
  }

  function crumbs() {
    const folders = page.uri.split("/");
    const file = folders.pop();
    return h("nav", { class: "crumbs", "aria-label": "Breadcrumbs" },
      h("a", { href: given.query ? search : "#/search" }, given.query ? "‹ Results" : "‹ Search"), " ",
      name(page.collection), " / ",
      folders.map((folder, at) => [h("a", { href: link("search", { path: `${folders.slice(0, at + 1).join("/")}/` }) }, name(folder)), " / "]),
      h("span", { "aria-current": "page" }, name(file)));
  }

  function facts() {
    const listed = [page.outline?.language, page.outline ? plural(page.outline.lines, "line") : ""].filter(Boolean);
    return h("div", { class: "facts" },
      listed.map((fact) => h("span", null, name(fact))),
      (page.outline?.tags || []).map((tag) => h("a", { class: "hashtag", href: link("search", { tag }) }, name(`#${tag}`))),
      h("a", { href: link("graph", { c: page.collection, around: page.uri }) }, "in the graph"), " · ",
          h("a", { href: link("earlier", { c: page.collection, u: page.uri }) }, "earlier versions"),
      page.tree ? toggle : null);
  }

  function properties() {
    const rows = (page.properties || []).filter((row) => row.name !== "title" && row.name !== "tags" && row.values.some(Boolean));
    if (!rows.length) return null;
    return h("details", { class: "properties", open: rows.length <= 8 }, h("summary", null, "Properties"),
      h("dl", null, rows.map((row) => h("div", null, h("dt", null, name(row.name)),
        h("dd", null, row.values.map((value, at) => h("span", { class: row.values.length > 1 ? "tag" : null }, property(value, row.links[at]))))))));
  }

  const property = (value, target) => (target.uri
    ? h("a", { href: link("read", { c: page.collection, u: target.uri, h: target.anchor }) }, name(value)) : name(value));

  function drawOutline() {
    if (!sections.length) return;
    replace(outline, h("h2", null, "Outline"), h("ul", null, sections.slice(0, 500).map((section, at) =>
      h("li", { class: `deep${Math.min(section.level, 6)}` },
        h("button", { type: "button", "data-at": at, on: { click: () => go(paper.at(section.start)) } }, name(section.title || "(untitled)"))))));
    follow();
  }

  function drawRelated() {
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

  // --- the text -------------------------------------------------------------------------------------

  function drawBody() {
    renderer?.leave();
    pieces?.leave();
    renderer = new Renderer({ paper, collection: page.collection, uri: page.uri, extracted: page.extracted, signal: leaving.signal });
    const rendered = page.tree && !source;
    body.className = rendered ? "text prose" : `text mono${page.tree || !page.outline?.language ? " wrap" : ""}`;
    toggle.textContent = rendered ? "Source" : "Rendered";
    toggle.setAttribute("aria-label", rendered ? "Show the source" : "Show it rendered");
    toggle.title = `${rendered ? "Show the source" : "Show it rendered"} (s)`;
    let nodes = page.tree;
    // The title is shown once, also if it is the first heading.
    const first = rendered && nodes[0]?.[0] === "heading" && nodes[0][4].level === 1 ? renderer.blocks([nodes[0]]) : null;
    const isTitle = first && squeeze(h("div", null, first).textContent) === squeeze(page.title);
    replace(title, isTitle ? first : h("h1", null, name(page.title || page.uri.split("/").pop())));
    if (isTitle) nodes = nodes.slice(1);
    pieces = new Pieces(rendered ? splitNodes(nodes) : splitLines());
    replace(body, pieces.boxes);
    pieces.fill(pieces.parts[0]);
  }

  function splitNodes(nodes) {
    const parts = [];
    const whole = page.text.length <= SHORT;
    let some = [];
    const close = () => {
      if (!some.length && parts.length) return;
      const mine = some;
      const [start, end] = mine.length ? [paper.at(mine[0][1]), paper.at(mine.at(-1)[2])] : [0, 0];
      parts.push({ start, height: Math.round(((end - start) / 75) * 28 + mine.length * 18), make: () => renderer.blocks(mine) });
      some = [];
    };
    for (const node of nodes) {
      some.push(node);
      if (!whole && paper.at(node[2]) - paper.at(some[0][1]) > PIECE_CHARS) close();
    }
    close();
    return parts;
  }

  function splitLines() {
    const { text } = paper;
    starts = [0];
    for (let at = text.indexOf("\n"); at >= 0 && at < text.length - 1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
    const tokens = page.tree ? styleTokens() : null;
    const parts = [];
    const step = text.length <= SHORT ? starts.length : PIECE_LINES;
    for (let first = 0; first < starts.length; first += step) {
      const last = Math.min(first + step, starts.length);
      parts.push({ start: starts[first], height: (last - first) * 22, make: () => starts.slice(first, last).map((start, at) => makeLine(first + at, tokens)) });
    }
    return parts;
  }

  function makeLine(index, tokens) {
    const start = starts[index];
    const next = starts[index + 1] ?? paper.text.length;
    const end = paper.text[next - 1] === "\n" ? next - 1 : next;
    const cited = paper.part && paper.part[1] > start && paper.isCited(start, end);
    return h("div", { class: cited ? "ln within" : "ln", "data-n": index + 1, "data-at": start },
      end > start ? paper.nodes(start, end, { ...(tokens ? { tokens: mergeTokens(tokens) } : {}) }) : h("br"));
  }

  // Colours for the source of Markdown, from its tree.
  function styleTokens() {
    const tokens = [];
    const visit = (node) => {
      if (Object.hasOwn(STYLES, node[0])) tokens.push([paper.at(node[1]), paper.at(node[2]), STYLES[node[0]]]);
      else if (node[0] !== "t" && node[0] !== "code_block") node[3].forEach(visit);
    };
    page.tree.forEach(visit);
    return { own: tokens, merged: null, count: -1 };
  }

  function mergeTokens(tokens) {
    if (tokens.count !== paper.tokens.length) {
      tokens.merged = [...tokens.own, ...paper.tokens].sort((a, b) => a[0] - b[0]);
      tokens.count = paper.tokens.length;
    }
    return tokens.merged;
  }

  // --- places ---------------------------------------------------------------------------------------

  // Return the element at an offset, made if necessary.
  function elementAt(offset) {
    const { box } = pieces.reach(offset);
    let best = null;
    for (const element of [...title.querySelectorAll("[data-at]"), ...box.querySelectorAll("[data-at]")]) {
      if (Number(element.dataset.at) > offset) break;
      // The number of a page is above the block that begins at the same place.
      if (best?.classList.contains("place") && best.dataset.at === element.dataset.at) continue;
      best = element;
    }
    return best || box;
  }

  function showPlace() {
    const wanted = page.part ? paper.at(page.part[0]) : paper.marks[0]?.[0];
    if (wanted === undefined || !body.isConnected) return;
    let element = elementAt(wanted);
    if (!given.heading && page.part) element = article.querySelector(".within, .part") || element;
    if (placed < 0 && element.getBoundingClientRect().top <= innerHeight * 0.6) return;
    element.scrollIntoView({ block: "start" });
    placed = scrollY;
  }

  function go(offset) {
    const target = elementAt(offset);
    target.scrollIntoView({ block: "start" });
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  }

  function switchView() {
    if (!page?.tree) return;
    const offset = topOffset();
    source = !source;
    localStorage.setItem(VIEW_KEY, source ? "source" : "rendered");
    drawBody();
    if (offset > 0) elementAt(offset).scrollIntoView({ block: "start" });
    pieces.fillRest();
    follow();
    announce(source ? "Source" : "Rendered");
  }

  // Return the offset of what is at the top of the window; 0 at the beginning.
  function topOffset() {
    if (scrollY < 80) return 0;
    const piece = pieces.parts.find((part) => part.box.getBoundingClientRect().bottom > TOP);
    if (!piece) return 0;
    const element = [...piece.box.querySelectorAll("[data-at]")].find((block) => block.getBoundingClientRect().bottom > TOP);
    return Number(element?.dataset.at ?? piece.start);
  }

  // Highlight the section that is being read.
  let waiting = 0;
  function follow() {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      if (!pieces || !outline.isConnected) return;
      const offset = topOffset();
      let now = -1;
      sections.some((section, at) => (paper.at(section.start) > offset || ((now = at), false)));
      for (const button of outline.querySelectorAll("button")) {
        if (Number(button.dataset.at) !== now) button.removeAttribute("aria-current");
        else if (!button.hasAttribute("aria-current")) {
          button.setAttribute("aria-current", "location");
          const [top, bottom] = [button.offsetTop, button.offsetTop + button.offsetHeight];
          if (top < outline.scrollTop || bottom > outline.scrollTop + outline.clientHeight) outline.scrollTop = top - outline.clientHeight / 3;
        }
      }
    });
  }
  window.addEventListener("scroll", follow, { passive: true });

  const step = (address) => () => {
    if (address()) location.hash = address();
    return Boolean(address());
  };
  return {
    leave() {
      leaving.abort();
      pieces?.leave();
      renderer?.leave();
      window.removeEventListener("scroll", follow);
    },
    keys: {
      Escape: () => ((location.hash = given.query ? search : "#/search"), true),
      s: () => (switchView(), true),
      "[": step(() => hits[0]),
      "]": step(() => hits[1]),
      j: () => (window.scrollBy({ top: 120 }), true),
      k: () => (window.scrollBy({ top: -120 }), true),
    },
  };
}
