// The call graph of a definition: callers on the left, what it calls on the right, one column for
// each call in between. The lists below the picture say the same in words.

import { announce, h, link, name, plural, problem, replace, s } from "/web/dom.js";
import { ask } from "/web/api.js";

const [COLUMN, ROW, WIDE, HIGH] = [230, 34, 190, 24];
const DEPTHS = [1, 2, 3, 4];

const short = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
const label = (node) => node.name || node.uri.split("/").pop();

export function showCalls(main, params) {
  const leaving = new AbortController();
  const [collection, target] = [params.get("c") || "", params.get("symbol")];
  const depth = Number(params.get("depth")) || 2;
  const body = h("div", { class: "calls" }, h("p", { class: "empty" }, "Loading…"));
  replace(main, body);
  load();

  async function load() {
    try {
      draw(await ask("calls", { target, collection, depth }, leaving.signal));
    } catch (error) {
      if (error.name !== "AbortError") replace(body, h("h1", null, "Calls"), problem(error));
    }
  }

  const readable = (node, of) => link("read", { c: of.collection, u: node.uri, s: node.line, e: node.end_line });
  const here = (symbol, more = {}) => link("graph", { c: collection, symbol, depth, ...more });
  const symbolOf = (node) => (node.name ? `${node.uri}#${node.name}` : "");

  function draw(graph) {
    const steps = h("select", { id: "calls-depth", on: { change: (event) => (location.hash = here(target, { depth: event.target.value })) } },
      DEPTHS.map((value) => h("option", { value }, plural(value, "call"))));
    steps.value = depth;
    const legend = [["", "definition"], ["test", "test"], ["uncertain", "by name only"]];
    replace(body,
      h("header", { class: "head-line" }, h("h1", null, name(graph.name || graph.uri)),
        h("p", { class: "crumbs" }, h("a", { href: readable(graph, graph) }, name(`${graph.uri}:${graph.line}`)), ` · ${graph.kind}`),
        h("div", { class: "controls" }, h("label", { for: "calls-depth" }, "Up to"), steps,
          h("ul", { class: "legend-line", "aria-label": "Legend" }, legend.map(([kind, text]) => h("li", null, h("i", { class: `swatch call ${kind}`, "aria-hidden": "true" }), text))))),
      graph.complete ? null : h("p", { class: "note-line" }, "There are more calls than are shown."),
      graph.callers.length + graph.callees.length ? picture(graph) : h("p", { class: "empty" }, "No calls to it or from it were found."),
      h("div", { class: "columns" }, list("Called by", graph.callers, graph), list("Calls", graph.callees, graph)));
    announce(`${plural(graph.callers.length, "caller")}, ${plural(graph.callees.length, "callee")}`);
  }

  const list = (title, nodes, graph) => h("section", null, h("h2", null, title, " ", h("span", { class: "count" }, nodes.length)),
    nodes.length ? h("ul", { class: "plain" }, nodes.map((node) => h("li", { class: `deep${Math.min(node.depth, 6)}` },
      h("a", { href: readable(node, graph) }, name(label(node))), h("span", { class: "small" }, " ", name(`${node.uri}:${node.line}`), node.certain ? "" : " (by name)", node.test ? " (test)" : ""),
      node.name ? h("a", { class: "then", href: here(symbolOf(node)) }, "its calls", h("span", { class: "unseen" }, " ", node.name)) : null)))
      : h("p", { class: "empty" }, "None."));

  // Every node is in the column of its distance, next to the node that it was reached from.
  function picture(graph) {
    const places = [{ x: 0, y: 0, node: graph }];
    const lines = [];
    let rows = 1;
    for (const [nodes, side] of [[graph.callers, -1], [graph.callees, 1]]) {
      const children = new Map();
      nodes.forEach((node, at) => children.set(node.parent, [...(children.get(node.parent) || []), at]));
      let row = 0;
      const spots = [];
      const put = (at) => {
        const below = children.get(at) || [];
        const first = row;
        below.forEach(put);
        if (row === first) row += 1;
        spots[at] = { x: side * nodes[at].depth * COLUMN, y: (first + row - 1) / 2, node: nodes[at] };
      };
      (children.get(-1) || []).forEach(put);
      const shift = (row - 1) / 2;
      spots.forEach((spot) => { spot.y = (spot.y - shift) * ROW; });
      nodes.forEach((node, at) => lines.push([spots[at], spots[node.parent] || places[0], node.certain]));
      places.push(...spots);
      rows = Math.max(rows, row);
    }
    const xs = places.map((place) => place.x);
    const [left, right, high] = [Math.min(...xs) - WIDE / 2 - 10, Math.max(...xs) + WIDE / 2 + 10, rows * ROW + 20];
    return h("div", { class: "calls-picture", tabindex: "0", role: "group", "aria-label": "Picture of the calls" },
      s("svg", { viewBox: `${left} ${-high / 2} ${right - left} ${high}`, width: right - left, height: high, role: "img", "aria-label": "Call graph; the lists below it name every definition" },
        lines.map(([from, to, certain]) => {
          const [a, b] = from.x < to.x ? [from, to] : [to, from];
          const [x1, x2] = [a.x + WIDE / 2, b.x - WIDE / 2];
          const middle = (x1 + x2) / 2;
          return s("path", { class: `edge${certain ? "" : " uncertain"}`, d: `M${x1} ${a.y}C${middle} ${a.y} ${middle} ${b.y} ${x2} ${b.y}` });
        }),
        places.map(({ x, y, node }, at) => s("g", { class: `call${at ? "" : " centre"}${node.test ? " test" : ""}${node.certain === false ? " uncertain" : ""}`, transform: `translate(${x} ${y})`,
          on: { click: () => at && node.name && (location.hash = here(symbolOf(node))) } },
          s("rect", { x: -WIDE / 2, y: -HIGH / 2, width: WIDE, height: HIGH, rx: 5 }), s("text", { "text-anchor": "middle", y: 4 }, short(label(node))), s("title", null, `${label(node)}, ${node.uri}:${node.line}`)))));
  }

  return { leave: () => leaving.abort(), keys: { Escape: () => (history.back(), true) } };
}
