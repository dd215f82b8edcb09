// A long list of which only the visible rows exist. Rows are kept by key: new results move and
// update them, so that the focus and what is being read stay where they are.

import { h } from "/web/dom.js";

const AROUND = 4; // Rows above and below the visible ones.

// makeRow() returns { element, update(hit) }. onMissing(index) loads a row, and onEnd()
// is called near the last one.
export function createList({ pane, list, keyOf, makeRow, onMissing, onEnd }) {
  const rows = new Map();
  let [hits, total, chosen, drawing] = [new Map(), 0, -1, 0];
  const height = () => parseFloat(getComputedStyle(pane).getPropertyValue("--row")) || 120;
  const keyAt = (index) => (hits.has(index) ? keyOf(hits.get(index)) : `#${index}`);
  const focused = () => [...rows.values()].find((row) => row.element.contains(document.activeElement));

  // Returns where the focused row is now, or -1 when no row has the focus.
  function fill(newHits, newTotal) {
    const held = focused();
    const before = held?.index ?? -1;
    [hits, total] = [newHits, newTotal];
    list.style.height = `${total * height()}px`;
    if (!held) return -1;
    const at = [...hits.keys()].find((index) => keyAt(index) === held.key);
    // The focused row stays the same element: it moves with its result, or shows its successor.
    const index = at ?? Math.min(before, total - 1);
    if (index < 0) return -1;
    rows.delete(held.key);
    held.key = keyAt(index);
    rows.get(held.key)?.element.remove();
    rows.set(held.key, held);
    return index;
  }

  function draw() {
    const high = height();
    const first = Math.max(0, Math.floor(pane.scrollTop / high) - AROUND);
    const last = Math.min(total - 1, Math.ceil((pane.scrollTop + pane.clientHeight) / high) + AROUND);
    const shown = [];
    for (let index = first; index <= last; index += 1) shown.push(index);
    if (chosen >= 0 && chosen < total && (chosen < first || chosen > last)) shown.push(chosen);
    shown.sort((a, b) => a - b);
    const wanted = new Set(shown.map(keyAt));
    for (const [key, row] of rows) {
      if (wanted.has(key)) continue;
      row.element.remove();
      rows.delete(key);
    }
    arrange(shown.map((index) => place(index, high)));
    const missing = shown.find((index) => !hits.has(index));
    if (missing !== undefined) onMissing(missing);
    if (total && last >= total - 10) onEnd();
  }

  function place(index, high) {
    const [key, hit] = [keyAt(index), hits.get(index)];
    let row = rows.get(key);
    if (!row) {
      row = hit ? makeRow() : { element: h("li", { class: "hit waiting" }, h("span", { class: "unseen" }, "loading")) };
      rows.set(key, row);
    }
    Object.assign(row, { key, index });
    if (hit && row.hit !== hit) row.update(hit);
    row.hit = hit;
    row.element.style.transform = `translateY(${index * high}px)`;
    row.element.setAttribute("aria-posinset", index + 1);
    row.element.setAttribute("aria-setsize", total);
    row.element.classList.toggle("chosen", index === chosen);
    return row.element;
  }

  // Moving an element takes its focus away, so the others move around the focused one.
  function arrange(elements) {
    let next = null;
    for (const element of elements.reverse()) {
      const fixed = element.parentNode === list && element.contains(document.activeElement);
      if (!fixed && (element.parentNode !== list || element.nextSibling !== next)) list.insertBefore(element, next);
      next = element;
    }
  }

  function choose(index, focus) {
    const high = height();
    chosen = index;
    if (index * high < pane.scrollTop) pane.scrollTop = index * high;
    else if ((index + 1) * high > pane.scrollTop + pane.clientHeight) pane.scrollTop = (index + 1) * high - pane.clientHeight;
    draw();
    if (focus) rows.get(keyAt(index))?.element.querySelector("a")?.focus({ preventScroll: true });
  }

  const scrolled = () => {
    cancelAnimationFrame(drawing);
    drawing = requestAnimationFrame(draw);
  };
  pane.addEventListener("scroll", scrolled, { passive: true });
  const resized = new ResizeObserver(() => {
    list.style.height = `${total * height()}px`;
    draw();
  });
  resized.observe(pane);

  return {
    fill,
    draw,
    choose,
    get chosen() { return chosen; },
    set chosen(index) { chosen = index; },
    find: (key) => [...hits.keys()].find((index) => keyAt(index) === key) ?? -1,
    hasFocus: () => Boolean(focused()),
    leave() {
      cancelAnimationFrame(drawing);
      resized.disconnect();
    },
  };
}
