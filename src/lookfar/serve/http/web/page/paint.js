// The text of a document with its marks. Every view shows text only through this module, so a mark
// covers the same characters in all of them.

import { h, utf16Offsets, visibleText } from "/web/dom.js";

// The first span that ends after an offset; spans are in order and do not overlap.
function firstBehind(spans, offset) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][1] <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Paper {
  // `base` is the offset of the first character of `text` in its document.
  constructor({ text, base = 0, marks = [], part = null }) {
    this.text = text;
    const toUtf16 = utf16Offsets(text);
    this.at = (offset) => toUtf16(Math.max(offset - base, 0));
    this.marks = marks.map(([start, end]) => [this.at(start), this.at(end)]);
    this.part = part ? part.map(this.at) : null;
    this.tokens = [];
  }

  // Colour the code with tokens of the server: start, end, class.
  colour(tokens) {
    this.tokens = tokens.map(([start, end, kind]) => [this.at(start), this.at(end), kind]);
  }

  // Return whether all of a range belongs to the cited part, except for space at its end.
  isCited(start, end) {
    if (!this.part || start < this.part[0]) return false;
    return end <= this.part[1] || (start < this.part[1] && !this.text.slice(this.part[1], end).trim());
  }

  // Return the nodes for the characters from `start` to `end`, or for `shown` in their place.
  nodes(start, end, { shown = null, cited = true, tokens = this.tokens } = {}) {
    const part = cited && this.part && this.part[0] < end && this.part[1] > start ? this.part : null;
    if (shown !== null) {
      const hit = this.marks[firstBehind(this.marks, start)]?.[0] < end;
      return this.wrap(visibleText(shown), hit, "", part !== null);
    }
    const cuts = new Set([start, end]);
    const cut = (spans) => {
      for (let at = firstBehind(spans, start); at < spans.length && spans[at][0] < end; at += 1) {
        cuts.add(Math.max(spans[at][0], start)).add(Math.min(spans[at][1], end));
      }
    };
    cut(this.marks);
    cut(tokens);
    if (part) cuts.add(Math.max(part[0], start)).add(Math.min(part[1], end));
    if (cuts.size === 2 && !part && !this.covers(this.marks, start) && !this.covers(tokens, start)) {
      return visibleText(this.text.slice(start, end));
    }
    const places = [...cuts].sort((a, b) => a - b);
    return places.slice(0, -1).map((from, index) => this.wrap(
      visibleText(this.text.slice(from, places[index + 1])),
      this.covers(this.marks, from), this.covers(tokens, from)?.[2] || "",
      part !== null && part[0] <= from && from < part[1]));
  }

  covers(spans, offset) {
    const span = spans[firstBehind(spans, offset)];
    return span && span[0] <= offset ? span : null;
  }

  wrap(nodes, hit, kind, cited) {
    let wrapped = nodes;
    if (kind) wrapped = [h("span", { class: `tok-${kind}` }, wrapped)];
    if (hit) wrapped = [h("mark", null, wrapped)];
    if (cited) wrapped = [h("span", { class: "part" }, wrapped)];
    return wrapped;
  }
}

// A long page in pieces. Those near the window are made at once, the rest while the browser is
// idle; the browser lays out only what is visible.
export class Pieces {
  // `parts` has the first offset of each piece, an estimate of its height, and how to make it.
  constructor(parts, options = {}) {
    this.parts = parts.map((part) => ({ ...part, filled: false, box: h("div", { class: parts.length > 1 ? "piece far" : "piece" }) }));
    this.left = false;
    this.watch = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.fill(this.parts[entry.target.dataset.index]);
    }, { rootMargin: "800px" });
    this.parts.forEach((part, index) => {
      part.box.dataset.index = index;
      if (parts.length > 1) {
        part.box.style.containIntrinsicBlockSize = `auto ${part.height}px`;
        part.box.style.minBlockSize = `${part.height}px`;
        this.watch.observe(part.box);
      }
    });
    this.onFill = options.onFill;
  }

  get boxes() {
    return this.parts.map((part) => part.box);
  }

  fill(part) {
    if (part.filled || this.left) return part;
    part.filled = true;
    part.box.append(...[part.make()].flat(Infinity).filter(Boolean));
    if (this.parts.length > 1) part.box.style.minBlockSize = "";
    this.watch.unobserve(part.box);
    this.onFill?.(part.box);
    return part;
  }

  // Make the piece with an offset, and return it.
  reach(offset) {
    let at = this.parts.findIndex((part) => part.start > offset);
    at = Math.max((at < 0 ? this.parts.length : at) - 1, 0);
    return this.fill(this.parts[at]);
  }

  // Make visible pieces again, for example with colours.
  refresh() {
    for (const part of this.parts) {
      if (!part.filled) continue;
      part.filled = false;
      part.box.replaceChildren();
      this.fill(part);
    }
  }

  fillRest() {
    const next = (deadline) => {
      const end = performance.now() + Math.min(deadline?.timeRemaining?.() ?? 8, 12);
      for (const part of this.parts) {
        if (this.left) return;
        if (!part.filled) this.fill(part);
        if (performance.now() > end) break;
      }
      if (!this.left && this.parts.some((part) => !part.filled)) later(next);
    };
    const later = window.requestIdleCallback || ((work) => setTimeout(work, 16));
    later(next);
  }

  leave() {
    this.left = true;
    this.watch.disconnect();
  }
}
