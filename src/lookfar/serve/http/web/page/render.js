// Elements for the nodes of a rendered document. The server names what a node is, and only the kinds
// in the table below exist; their text comes from the document, character by character.

import { announce, confirm, h, link, name, replace, visibleText } from "/web/dom.js";
import { ask, askBlob } from "/web/api.js";
import { Paper } from "/web/paint.js";

const TAGS = {
  emphasis: "em", strong: "strong", deleted: "del", code: "code", keyboard: "kbd", subscript: "sub", superscript: "sup",
};
const GROUPS = {
  tip: "good", hint: "good", success: "good", check: "good", done: "good",
  warning: "warn", caution: "warn", attention: "warn", question: "warn", help: "warn", faq: "warn", important: "warn",
  danger: "bad", error: "bad", bug: "bad", failure: "bad", fail: "bad", missing: "bad",
  quote: "soft", cite: "soft", example: "soft", abstract: "soft", summary: "soft",
};
const NUMBER = /^[-+−(]?[€$£¥]?\s?\d[\d.,’' ]*\s?[%€$£¥)]?$/;
const DEEPEST_EMBED = 3;
const WIDEST = 1600;
export const hasCode = (node) => (node[0] === "code_block" ? Boolean(node[4].language) : node[0] !== "t" && node[3].some(hasCode));
const blank = (node, paper) => node[0] === "t" && node.length === 3 && !paper.text.slice(paper.at(node[1]), paper.at(node[2])).trim();

export class Renderer {
  // `scene` has the paper, the collection and URI, a signal that aborts, and the URIs it is embedded in.
  constructor(scene) {
    Object.assign(this, scene);
    this.outer = scene.outer || [];
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        this.seen.unobserve(entry.target);
        entry.target.load?.();
      }
    }, { rootMargin: "400px" });
  }

  leave() {
    this.seen.disconnect();
  }

  // The elements of top-level nodes; those that are cited share one frame.
  blocks(nodes) {
    const made = [];
    let frame = null;
    for (const node of nodes) {
      if (!this.cites(node)) {
        frame = null;
        made.push(this.make(node, {}));
        continue;
      }
      if (!frame) made.push((frame = h("div", { class: "within", "data-at": this.paper.at(node[1]) })));
      frame.append(...[this.make(node, { cited: true })].flat(Infinity));
    }
    return made;
  }

  // Whether a part of a node is cited: it must not be folded away then.
  touches(node) {
    const { part } = this.paper;
    return part !== null && this.paper.at(node[1]) < part[1] && this.paper.at(node[2]) > part[0];
  }

  cites(node) {
    return node[2] > node[1] && this.paper.isCited(this.paper.at(node[1]), this.paper.at(node[2]));
  }

  all(nodes, inside) {
    return nodes.map((node) => this.make(node, inside));
  }

  // `inside` says what surrounds a node: a cited block, a link.
  make(node, inside) {
    const [kind, start, end, children, details] = node;
    if (kind === "t") {
      return this.paper.nodes(this.paper.at(start), this.paper.at(end), { shown: node.length > 3 ? node[3] : null, cited: !inside.cited });
    }
    if (!Object.hasOwn(KINDS, kind)) throw new Error(`unknown node: ${kind}`);
    const cited = kind === "item" && !inside.cited && this.cites(node);
    const made = KINDS[kind](this, children, details || {}, cited ? { ...inside, cited } : inside, node);
    if (BLOCKS.has(kind) && made instanceof Element) made.dataset.at = this.paper.at(start);
    if (cited) made.classList.add("within");
    return made;
  }

  // A link to another site: it opens only after its whole address was shown and confirmed.
  outside(address, children, inside) {
    let url = null;
    try {
      url = new URL(address);
    } catch { /* Not an address. */ }
    if (inside.link || !url || !["http:", "https:"].includes(url.protocol)) return h("span", { class: "nolink", title: address }, children);
    const open = async (event) => {
      if (event.type === "keydown" && event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      if (await confirm("Open another site?", url.href, "Open")) window.open(url.href, "_blank", "noopener,noreferrer");
    };
    return h("span", { class: "out", role: "link", tabindex: "0", title: url.href, on: { click: open, keydown: open } },
      children, h("span", { class: "unseen" }, " (other site)"));
  }

  document(details, children) {
    const to = { c: details.collection || this.collection, u: details.uri, h: details.anchor || "" };
    return h("a", { href: link("read", to) }, children);
  }

  picture(children, details, inside) {
    const label = children.length ? h("span", null, this.all(children, inside)).textContent : "";
    if (details.href) return this.outside(details.href, ["Picture: ", label || details.href], inside);
    if (details.uri) return inside.link ? h("span", { class: "nolink" }, name(label)) : this.document(details, name(label || details.uri));
    if (!details.path) return h("span", { class: "nolink", title: "This picture was not found" }, "Picture: ", name(label || details.missing || details.address || ""));
    const box = h("span", { class: "image" }, h("span", { class: "alt" }, name(label || details.path)));
    box.load = () => this.draw(box, details, label);
    this.seen.observe(box);
    return box;
  }

  // Draw the bytes of a picture. It is never the source of an element, so the token goes with the
  // request, and nothing but our own server can be asked.
  async draw(box, details, label) {
    try {
      const blob = await askBlob("picture", { collection: this.collection, path: details.path }, this.signal);
      let bitmap = await createImageBitmap(blob);
      if (bitmap.width > WIDEST) bitmap = await createImageBitmap(blob, { resizeWidth: WIDEST, resizeQuality: "high" });
      const canvas = h("canvas", { role: "img", "aria-label": label || details.path, width: bitmap.width, height: bitmap.height });
      if (details.width) canvas.style.inlineSize = `${details.width}px`;
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      bitmap.close();
      box.replaceChildren(canvas);
    } catch (error) {
      if (error.name !== "AbortError") box.replaceChildren(h("span", { class: "nolink", title: error.message }, "Picture: ", name(label || details.path)));
    }
  }

  embed(children, details, inside) {
    const title = children.length ? this.all(children, { ...inside, link: true }) : name([details.uri, details.anchor].filter(Boolean).join(" › "));
    if (details.href) return this.outside(details.href, title, inside);
    if (!details.uri) return h("span", { class: "nolink", title: "This document does not exist" }, children.length ? title : name(details.missing || ""));
    const key = `${details.uri}#${details.anchor}`;
    const head = h("p", { class: "small" }, this.document(details, title));
    if (this.outer.length >= DEEPEST_EMBED || this.outer.includes(key) || inside.link) return head;
    const body = h("div", { class: "embedded" });
    const box = h("section", { class: "embed", "aria-label": `Embedded: ${details.uri}` }, head, body);
    box.load = async () => {
      try {
        const target = details.anchor ? `${details.uri}#${details.anchor}` : details.uri;
        const page = await ask("document", { target, collection: this.collection, render: true, alone: true }, this.signal);
        const inner = new Renderer({ ...this, paper: new Paper({ text: page.text, base: page.base }), uri: page.uri, extracted: page.extracted, outer: [...this.outer, key] });
        if (!page.tree || page.tree.some(hasCode)) {
          const colours = await ask("highlight", { target: page.uri, collection: page.collection, sha256: page.sha256 }, this.signal);
          if (colours.sha256 === page.sha256) inner.paper.colour(colours.tokens);
        }
        body.append(...(page.tree ? inner.blocks(page.tree).flat(Infinity) : [h("pre", { tabindex: "0" }, inner.paper.nodes(0, page.text.length))]));
      } catch (error) {
        if (error.name !== "AbortError") body.append(h("p", { class: "small" }, visibleText(error.message)));
      }
    };
    this.seen.observe(box);
    return box;
  }

  codeBlock(children, details, inside) {
    const code = h("code", null, this.all(children, inside));
    code.repaint = () => replace(code, this.all(children, inside));
    const copy = h("button", { type: "button", class: "copy", on: { click: async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        announce("Code copied.");
      } catch {
        announce("The browser does not allow copying.");
      }
    } } }, "Copy");
    return h("div", { class: "code" }, h("div", { class: "code-head" }, h("span", null, visibleText(details.language)), copy),
      h("pre", { tabindex: "0", role: "region", "aria-label": details.language ? `Code: ${details.language}` : "Code" }, code));
  }

  callout(children, details, inside, node) {
    const type = /^[\w-]+$/.test(details.type) ? details.type : "note";
    const named = children[0]?.[0] === "title" ? children[0] : null;
    const title = named ? this.all(named[3], inside) : type.charAt(0).toUpperCase() + type.slice(1);
    const body = this.all(named ? children.slice(1) : children, inside);
    const attributes = { class: `callout tone-${GROUPS[type] || "note"}`, "data-callout": type };
    if (details.fold) return h("details", { ...attributes, open: details.fold === "+" || this.touches(node) }, h("summary", { class: "callout-title" }, title), body);
    return h("div", { ...attributes, role: "note" }, h("p", { class: "callout-title" }, title), body);
  }

  textOf(node) {
    return this.paper.text.slice(this.paper.at(node[1]), this.paper.at(node[2])).trim();
  }

  // A sheet says nothing about its columns: one with only numbers is aligned like a column of numbers.
  alignNumbers(rows) {
    const columns = [];
    for (const row of rows) {
      row[3].forEach((cell, at) => {
        const text = this.textOf(cell);
        if (text) columns[at] = (columns[at] ?? true) && NUMBER.test(text);
      });
    }
    return columns.map((numeric) => (numeric ? "right" : null));
  }

  // Short cells do not wrap and long ones are not narrow: a wide table can be scrolled.
  lengthOf(cell) {
    const { length } = this.textOf(cell);
    return length > 60 ? "long" : length <= 24 ? "short" : "";
  }

  table(children, details, inside) {
    const heads = children.filter((node) => node[4]?.head);
    const align = this.extracted ? this.alignNumbers(children.filter((node) => !node[4]?.head)) : details.align || [];
    const row = (node, tag) => {
      const cited = !inside.cited && this.cites(node);
      return h("tr", { class: cited ? "within" : null, "data-at": this.paper.at(node[1]) }, node[3].map((cell, at) => {
        const aligned = align[at] === "right" || align[at] === "center" ? `to-${align[at]}` : "";
        const length = this.extracted ? this.lengthOf(cell) : "";
        return h(tag, { class: [aligned, length].filter(Boolean).join(" ") || null, scope: tag === "th" ? "col" : null }, this.all(cell[3], cited ? { ...inside, cited } : inside));
      }));
    };
    return h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, h("table", null,
      h("thead", null, heads.map((node) => row(node, "th"))),
      h("tbody", null, children.filter((node) => !node[4]?.head).map((node) => row(node, "td")))));
  }

  item(children, details, inside) {
    if (!("done" in details)) return h("li", null, this.all(children, inside));
    return h("li", { class: "task" }, h("span", { class: details.done ? "box done" : "box", role: "img", "aria-label": details.done ? "done" : "to do" }), this.all(children, inside));
  }

  footnote(children, details, inside) {
    return h("div", { class: "footnote", "data-note": details.number, role: "note", "aria-label": `Footnote ${details.number}` },
      h("button", { type: "button", class: "fn", "aria-label": `Back to the text of footnote ${details.number}`, on: { click: () => jump(`[data-reference="${details.number}"]`) } }, details.number),
      h("div", null, this.all(children, inside)));
  }
}

function jump(selector) {
  const target = document.querySelector(selector);
  target?.scrollIntoView({ block: "center" });
  target?.setAttribute("tabindex", "-1");
  target?.focus({ preventScroll: true });
}

export const placeName = (label) => {
  const numbered = /^([a-z]+)=(.+)$/.exec(label);
  return numbered ? `${numbered[1].charAt(0).toUpperCase()}${numbered[1].slice(1)} ${numbered[2]}` : label;
};

const BLOCKS = new Set(["heading", "paragraph", "list", "item", "quote", "callout", "code_block", "table", "rule", "html_block", "footnote", "details", "place", "plain"]);
const wrap = (tag, attributes) => (made, children, details, inside) => h(tag, attributes, made.all(children, inside));
const KINDS = {
  ...Object.fromEntries(Object.entries(TAGS).map(([kind, tag]) => [kind, wrap(tag)])),
  heading: (made, children, details, inside) => h(`h${Math.min(Math.max(Number(details.level) || 1, 1), 6)}`, null, made.all(children, inside)),
  paragraph(made, children, details, inside) {
    const lone = children.filter((child) => !blank(child, made.paper));
    const block = lone.length === 1 && (lone[0][0] === "embed" || lone[0][0] === "picture");
    return h(block ? "div" : "p", { class: block ? "alone" : null }, made.all(block ? lone : children, inside));
  },
  list: (made, children, details, inside) => {
    const list = h("first" in details ? "ol" : "ul", null, made.all(children, inside));
    if (details.first > 1) list.start = details.first;
    if (children.some((child) => "done" in (child[4] || {}))) list.classList.add("tasks");
    return list;
  },
  item: (made, ...given) => made.item(...given),
  quote: wrap("blockquote"),
  callout: (made, ...given) => made.callout(...given),
  title: wrap("p"),
  code_block: (made, ...given) => made.codeBlock(...given),
  table: (made, ...given) => made.table(...given),
  row: wrap("p"),
  cell: wrap("span"),
  rule: () => h("hr"),
  html_block: wrap("pre", { class: "raw", tabindex: "0", role: "region", "aria-label": "HTML, shown as text" }),
  plain: wrap("pre", { class: "raw", tabindex: "0", role: "region", "aria-label": "Text" }),
  footnote: (made, ...given) => made.footnote(...given),
  details: (made, children, details, inside, node) => h("details", { open: Boolean(details.open) || made.touches(node) },
    children.some((child) => child[0] === "summary") ? null : h("summary", null, "Details"), made.all(children, inside)),
  summary: wrap("summary"),
  place: (made, children, details) => h("p", { class: "place" }, name(placeName(details.label))),
  marked: wrap("span", { class: "hilite" }),
  break: () => h("br"),
  link(made, children, details, inside) {
    const text = made.all(children, { ...inside, link: true });
    if (details.href) return made.outside(details.href, text, inside);
    if (details.uri && !inside.link) return made.document(details, text);
    return h("span", { class: "nolink", title: details.address || (details.missing ? `${details.missing} is not indexed` : null) }, text);
  },
  picture: (made, ...given) => made.picture(...given),
  embed: (made, ...given) => made.embed(...given),
  tag: (made, children, details, inside) => (inside.link ? h("span", null, made.all(children, inside)) : h("a", { class: "hashtag", href: link("search", { tag: details.name }) }, made.all(children, inside))),
  math: (made, children, details, inside) => h("code", { class: details.display ? "math display" : "math" }, made.all(children, inside)),
  reference: (made, children, details, inside) => (inside.link ? h("sup", null, details.number) : h("sup", null, h("button", { type: "button", class: "fn", "data-reference": details.number, "aria-label": `Footnote ${details.number}`, on: { click: () => jump(`[data-note="${details.number}"]`) } }, details.number))),
  field: wrap("span", { class: "field-name" }),
  block_id: wrap("span", { class: "block-id" }),
  html: wrap("code", { class: "raw" }),
};
