// The link graph: forces place linked documents close together, and the twelve largest communities
// have colours. A list next to it shows the same documents without needing colours or a mouse.

import { announce, h, link, name, number, problem, replace, s, plural } from "/web/dom.js";
import { ask } from "/web/api.js";
import { showCalls } from "/web/calls.js";

const COLOURS = 12; // Communities beyond these are grey.
const DEPTHS = [["1", "1 link away"], ["2", "2 links away"], ["3", "3 links away"], ["", "any distance"]];
const MOST = 300;
const STEPS = 260;
const LABELS = 30;

export function show(main, params, frame) {
  if (params.get("symbol")) return showCalls(main, params);
  const leaving = new AbortController();
  const wanted = { collection: params.get("c") || "", around: params.get("around") || "", community: params.get("community") || "", depth: params.get("depth") || "" };
  const colour = (community) => (community < COLOURS ? `c${community}` : "other");
  const pick = (change) => link("graph", { c: wanted.collection, around: wanted.around, community: wanted.community, depth: wanted.depth, ...change });
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let [nodes, edges, near, chosen, words] = [[], [], [], -1, ""];
  let view = { x: 0, y: 0, k: 1 };
  let [circles, labels, path, lit, running] = [[], [], null, null, 0];

  const scene = s("g", { class: "scene" });
  const canvas = s("svg", { class: "canvas", role: "application", tabindex: "0", "aria-label": "Link graph. Arrow keys move it, plus and minus zoom. The list next to it names every document.", viewBox: "-500 -350 1000 700" }, scene);
  const filter = h("input", { id: "graph-filter", type: "search", placeholder: "Find a document" });
  const found = h("p", { class: "small", role: "status" });
  const narrowing = h("div");
  const communities = h("div", { class: "communities" });
  const entries = h("ul", { class: "entries", "aria-label": "Documents" });
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  const summary = h("p", { class: "small" });
  replace(main, h("h1", { class: "unseen" }, "Link graph"), h("div", { class: "web" },
    h("section", { class: "picture", "aria-label": "Picture" }, canvas,
      h("div", { class: "zoom" },
        h("button", { type: "button", "aria-label": "Zoom in", on: { click: () => zoom(1.4) } }, "+"),
        h("button", { type: "button", "aria-label": "Zoom out", on: { click: () => zoom(1 / 1.4) } }, "−"),
        h("button", { type: "button", "aria-label": "Show all", on: { click: reset } }, "⤢"))),
    h("section", { class: "legend", "aria-label": "Documents and communities" },
      detail,
      h("label", { class: "field", for: "graph-filter" }, "Find in the graph"), filter, found, narrowing, summary,
      communities,
      h("ul", { class: "legend-line", "aria-label": "Legend" },
        h("li", null, h("i", { class: "dot other", "aria-hidden": "true" }), "smaller communities"),
        h("li", null, h("i", { class: "dot small-dot", "aria-hidden": "true" }), h("i", { class: "dot large-dot", "aria-hidden": "true" }), "few and many links")), h("h2", null, "Documents"), entries)));
  load();

  async function load() {
    try {
      const graph = await ask("graph", {
        collection: wanted.collection, around: wanted.around, depth: Number(wanted.depth) || 0, most: MOST,
        community: wanted.community === "" ? -1 : Number(wanted.community),
      }, leaving.signal);
      build(graph);
    } catch (error) {
      if (error.name !== "AbortError") replace(detail, problem(error));
    }
  }

  function build(graph) {
    nodes = graph.nodes.map((node, at) => {
      // Start on a spiral, so that the layout is always the same and no two documents coincide.
      const [turn, far] = [at * 2.39996, 16 * Math.sqrt(at + 0.5)];
      return { ...node, x: far * Math.cos(turn), y: far * Math.sin(turn), vx: 0, vy: 0, r: 4 + Math.sqrt(node.links) * 1.5 };
    });
    edges = graph.edges;
    near = nodes.map(() => []);
    for (const [a, b] of edges) {
      near[a].push(b);
      near[b].push(a);
    }
    const narrowed = wanted.around || wanted.community !== "";
    replace(summary, `${number(nodes.length)} of ${plural(graph.documents, "linked document")}`,
      narrowed ? [" · ", h("a", { href: link("graph", { c: wanted.collection }) }, "show all")] : null);
    if (wanted.around) {
      const depth = h("select", { id: "graph-depth", on: { change: (event) => (location.hash = pick({ depth: event.target.value })) } }, DEPTHS.map(([value, label]) => h("option", { value }, label)));
      depth.value = wanted.depth;
      replace(narrowing, h("label", { class: "field", for: "graph-depth" }, "Around this document"), depth);
    }
    replace(communities, h("h2", null, "Communities"), h("ul", null, graph.communities.slice(0, COLOURS).map((community) => h("li", null,
      h("a", { href: link("graph", { c: wanted.collection, community: community.number }), "aria-current": wanted.community === String(community.number) ? "true" : undefined },
        h("i", { class: `dot ${colour(community.number)}`, "aria-hidden": "true" }), name(community.title || community.uri), h("span", { class: "count" }, number(community.size)))))));
    path = s("path", { class: "edges" });
    lit = s("path", { class: "edges near" });
    circles = nodes.map((node, at) => s("circle", {
      class: `node ${colour(node.community)}`, r: node.r.toFixed(1), "data-at": at,
      on: { click: () => select(at, true), dblclick: () => open(at) },
    }, s("title", null, node.title || node.uri)));
    const labelled = nodes.map((_, at) => at).sort((a, b) => nodes[b].links - nodes[a].links).slice(0, LABELS);
    labels = labelled.map((at) => [at, s("text", { class: "label", "aria-hidden": "true" }, short(nodes[at].title || nodes[at].uri))]);
    replace(scene, path, lit, circles, labels.map(([, text]) => text));
    list();
    if (!nodes.length) replace(detail, h("p", { class: "empty" }, "No document links to another yet."));
    settle();
    const at = wanted.around ? nodes.findIndex((node) => node.uri === wanted.around) : -1;
    if (at >= 0) select(at, false);
    announce(`${plural(nodes.length, "document")} and ${plural(edges.length, "link")}`);
  }

  const short = (text) => (text.length > 28 ? `${text.slice(0, 27)}…` : text);

  // --- forces -------------------------------------------------------------------------------------

  function settle() {
    let heat = 1;
    let step = 0;
    const tick = () => {
      for (let round = 0; round < (still ? STEPS : 6) && step < STEPS; round += 1, step += 1) {
        force(heat);
        heat *= 0.985;
      }
      if (step === STEPS || step <= 60 || step % 12 === 0) fit();
      draw();
      if (step < STEPS) running = requestAnimationFrame(tick);
      else canvas.setAttribute("data-settled", "");
    };
    tick();
  }

  function force(heat) {
    const count = nodes.length;
    for (let a = 0; a < count; a += 1) {
      const one = nodes[a];
      for (let b = a + 1; b < count; b += 1) {
        const other = nodes[b];
        const dx = one.x - other.x;
        const dy = one.y - other.y;
        const square = Math.max(dx * dx + dy * dy, 25);
        if (square > 90000) continue;
        const push = ((one.community === other.community ? 700 : 1300) * heat) / square;
        one.vx += dx * push * 0.1;
        one.vy += dy * push * 0.1;
        other.vx -= dx * push * 0.1;
        other.vy -= dy * push * 0.1;
      }
      one.vx -= one.x * 0.012 * heat;
      one.vy -= one.y * 0.012 * heat;
    }
    for (const [a, b] of edges) {
      const [one, other] = [nodes[a], nodes[b]];
      const dx = other.x - one.x;
      const dy = other.y - one.y;
      const far = Math.hypot(dx, dy) || 1;
      const same = one.community === other.community;
      const pull = ((far - (same ? 38 : 90)) / far) * (same ? 0.16 : 0.022) * heat / Math.sqrt(Math.min(near[a].length, near[b].length));
      one.vx += dx * pull;
      one.vy += dy * pull;
      other.vx -= dx * pull;
      other.vy -= dy * pull;
    }
    for (const node of nodes) {
      node.x += Math.max(-24, Math.min(24, node.vx));
      node.y += Math.max(-24, Math.min(24, node.vy));
      node.vx *= 0.6;
      node.vy *= 0.6;
    }
  }

  function draw() {
    const at = (node) => `${node.x.toFixed(1)} ${node.y.toFixed(1)}`;
    const drawn = (some) => some.map(([a, b]) => `M${at(nodes[a])}L${at(nodes[b])}`).join("");
    path.setAttribute("d", drawn(edges));
    lit.setAttribute("d", chosen < 0 ? "" : drawn(edges.filter((edge) => edge.includes(chosen))));
    circles.forEach((circle, index) => {
      circle.setAttribute("cx", nodes[index].x.toFixed(1));
      circle.setAttribute("cy", nodes[index].y.toFixed(1));
    });
    for (const [index, text] of labels) {
      text.setAttribute("x", (nodes[index].x + nodes[index].r + 4).toFixed(1));
      text.setAttribute("y", (nodes[index].y + 4).toFixed(1));
    }
  }

  // --- looking ------------------------------------------------------------------------------------

  const apply = () => {
    scene.setAttribute("transform", `translate(${view.x.toFixed(1)} ${view.y.toFixed(1)}) scale(${view.k.toFixed(3)})`);
    scene.style.setProperty("--k", view.k);
    spread();
  };

  // If labels overlap, show only that of the document with more links.
  function spread() {
    const taken = [];
    for (const [index, text] of labels) {
      const { x, y, r } = nodes[index];
      const [left, top] = [(x + r) * view.k, y * view.k - 8];
      const box = [left, top, left + 6.6 * text.textContent.length, top + 16];
      const free = taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
      text.classList.toggle("crowded", !free);
      if (free) taken.push(box);
    }
  }

  function fit() {
    if (!nodes.length) return;
    const xs = nodes.map((node) => node.x);
    const ys = nodes.map((node) => node.y);
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const k = Math.min(900 / (x1 - x0 + 60), 620 / (y1 - y0 + 60), 2.2);
    view = { k, x: (-k * (x0 + x1)) / 2, y: (-k * (y0 + y1)) / 2 };
    apply();
  }

  function reset() {
    fit();
    announce("Showing all documents.");
  }

  function zoom(by, x = 0, y = 0) {
    const k = Math.max(0.1, Math.min(8, view.k * by));
    view = { k, x: x - ((x - view.x) * k) / view.k, y: y - ((y - view.y) * k) / view.k };
    apply();
  }

  function point(event) {
    const position = canvas.createSVGPoint();
    [position.x, position.y] = [event.clientX, event.clientY];
    return position.matrixTransform(canvas.getScreenCTM().inverse());
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = point(event);
    zoom(Math.exp(-event.deltaY * 0.0015), x, y);
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.target.closest(".node")) return;
    drag = { from: point(event), x: view.x, y: view.y };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const now = point(event);
    view.x = drag.x + now.x - drag.from.x;
    view.y = drag.y + now.y - drag.from.y;
    apply();
  });
  canvas.addEventListener("pointerup", () => (drag = null));
  canvas.addEventListener("pointercancel", () => (drag = null));

  // --- choosing -----------------------------------------------------------------------------------

  function matches(node) {
    return !words || `${node.title} ${node.uri}`.toLowerCase().includes(words);
  }

  function list() {
    const shownNodes = nodes.map((node, at) => [node, at]).filter(([node]) => matches(node)).sort(([a], [b]) => b.links - a.links).slice(0, 200);
    replace(entries, shownNodes.map(([node, at]) => h("li", null,
      h("button", { type: "button", "aria-pressed": String(at === chosen), on: { click: () => select(at, true) } },
        h("i", { class: `dot ${colour(node.community)}`, "aria-hidden": "true" }), name(node.title || node.uri), h("span", { class: "count" }, number(node.links))))));
  }

  function paint() {
    const around = new Set(chosen < 0 ? [] : [chosen, ...near[chosen]]);
    circles.forEach((circle, at) => {
      circle.classList.toggle("chosen", at === chosen);
      circle.classList.toggle("faint", (chosen >= 0 && !around.has(at)) || !matches(nodes[at]));
    });
    for (const [at, text] of labels) text.classList.toggle("faint", circles[at].classList.contains("faint"));
    scene.classList.toggle("narrowed", chosen >= 0 || Boolean(words));
    draw();
  }

  const readable = (node) => link("read", { c: wanted.collection, u: node.uri });
  const open = (at) => (location.hash = readable(nodes[at]));

  function select(at, announced) {
    chosen = at === chosen ? -1 : at;
    paint();
    list();
    if (chosen < 0) return replace(detail);
    const node = nodes[at];
    replace(detail, h("h2", null, name(node.title || node.uri)), h("p", { class: "crumbs" }, name(node.uri)),
      h("div", { class: "actions" },
        h("a", { class: "button main", href: readable(node) }, "Open"),
        h("a", { class: "button", href: link("graph", { c: wanted.collection, around: node.uri, depth: 1 }) }, "Its neighbourhood")),
      h("p", { class: "small" }, `Linked with ${plural(node.links, "document")}`, near[at].length < node.links ? `, ${near[at].length} of them shown` : ""));
    if (announced) announce(`${node.title || node.uri}, linked with ${plural(node.links, "document")}`);
  }

  filter.addEventListener("input", () => {
    words = filter.value.trim().toLowerCase();
    const count = nodes.filter(matches).length;
    replace(found, !words ? null : [`${plural(count, "document")} here. `, h("a", { href: link("search", { q: filter.value.trim() }) }, "Search all documents")]);
    list();
    paint();
  });
  // Enter selects the match with the most links.
  filter.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !words) return;
    const best = nodes.map((node, at) => [node, at]).filter(([node]) => matches(node)).sort(([a], [b]) => b.links - a.links)[0];
    if (!best) return;
    if (best[1] !== chosen) select(best[1], true);
    view = { ...view, x: -best[0].x * view.k, y: -best[0].y * view.k };
    apply();
  });

  const move = (x, y) => () => {
    if (document.activeElement !== canvas) return false;
    view.x += x;
    view.y += y;
    apply();
    return true;
  };
  return {
    leave() {
      leaving.abort();
      cancelAnimationFrame(running);
    },
    keys: {
      "+": () => (zoom(1.25), true),
      "=": () => (zoom(1.25), true),
      "-": () => (zoom(0.8), true),
      0: () => (reset(), true),
      ArrowLeft: move(50, 0), ArrowRight: move(-50, 0), ArrowUp: move(0, 50), ArrowDown: move(0, -50),
      f: () => (filter.focus(), true),
      Escape() {
        if (chosen >= 0) select(chosen, false);
        else location.hash = wanted.around || wanted.community ? link("graph", { c: wanted.collection }) : "#/search";
        return true;
      },
    },
  };
}
