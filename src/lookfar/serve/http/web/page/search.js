// Search as you type: filters on the left, results in the middle, the selected one on the right.
// Only visible rows exist in the page, so ten thousand results cost no more than ten.

import { age, announce, h, link, marked, name, number, problem, replace, s, plural, visibleText } from "/web/dom.js";
import { ask } from "/web/api.js";
import { explanation, spark } from "/web/chart.js";

const PAGE = 25;
const FIRST = 100;
const DEEP = 10000;
const WAIT = 40;
const DAY = 86400000;
const AGES = { day: ["past day", 1], week: ["past week", 7], month: ["past month", 31], year: ["past year", 366] };
const KIND_NAMES = { docs: "Documents", code: "Code", commits: "Commits", memory: "Memories", documents: "Inserted" };
const MODES = [["", "Both"], ["keyword", "Words"], ["vector", "Meaning"]];
const MANY = ["lane", "language", "tag"];

// The last position in the list, for when the user comes back from reading.
let remembered = { key: "", top: 0, at: -1 };

// A search as its address describes it, and as the server is asked for it. The reading view uses
// both, to go to the next result of the search that it was opened from.
export const parseSearch = (params) => ({
  q: params.get("q") || "", mode: params.get("mode") || "", path: params.get("path") || "",
  after: params.get("after") || "", before: params.get("before") || "", age: params.get("age") || "",
  lane: params.getAll("lane"), language: params.getAll("language"), tag: params.getAll("tag"),
});

export function searchBody(wanted, offset, depth) {
  const since = Object.hasOwn(AGES, wanted.age) ? new Date(Date.now() - AGES[wanted.age][1] * DAY).toISOString().slice(0, 10) : wanted.after;
  return {
    query: wanted.q, mode: wanted.mode, prefix: wanted.path, lanes: wanted.lane, languages: wanted.language,
    tags: wanted.tag, after: since, before: wanted.before, offset, limit: PAGE, depth,
  };
}

// The filters travel with the link, as "w", so that the way back leads to the same list.
export const readLink = (hit, wanted) => link("read", {
  c: hit.collection, u: hit.uri, s: hit.start_line, e: hit.end_line, q: wanted.q,
  w: link("", { ...wanted, q: "" }).slice("#/?".length),
});

export function show(main, params, frame) {
  const { field } = frame;
  let wanted = parseSearch(params);
  let [results, pages, total, depth, chosen] = [null, new Map(), 0, FIRST, -1];
  let [asked, timer, frameAsked, waitingFor] = [null, 0, 0, new Set()];
  const rows = new Map();

  const facets = h("div", { class: "facets" });
  const summary = h("p", { class: "summary" });
  const list = h("ol", { class: "list", "aria-label": "Results" });
  const pane = h("div", { class: "results", tabindex: "-1" }, list);
  const notes = h("div", { class: "notes" });
  const inspector = h("aside", { class: "inspector", "aria-label": "Selected result" });
  const start = h("section", { class: "start", "aria-label": "Overview" });
  const filters = h("details", { class: "filters", open: true },
    h("summary", null, "Filters"), facets);
  replace(main, h("h1", { class: "unseen" }, "Search"),
    h("div", { class: "finder" },
      h("section", { class: "side", "aria-label": "Filters" }, filters),
      h("section", { class: "middle", "aria-label": "Results" }, summary, notes, pane, start),
      inspector));
  if (matchMedia("(max-width: 60rem)").matches) filters.removeAttribute("open");
  field.value = wanted.q;
  const rowHeight = () => parseFloat(getComputedStyle(pane).getPropertyValue("--row")) || 132;

  // --- requests -----------------------------------------------------------------------------------

  async function run({ keep = false } = {}) {
    clearTimeout(timer);
    asked?.abort();
    asked = new AbortController();
    const mine = asked;
    document.body.toggleAttribute("data-searching", Boolean(wanted.q.trim()));
    if (!wanted.q.trim()) {
      main.removeAttribute("aria-busy");
      clear();
      overview();
      return;
    }
    main.setAttribute("aria-busy", "true");
    try {
      const answer = await ask("search", searchBody(wanted, 0, keep ? depth : FIRST), mine.signal);
      if (mine !== asked) return;
      if (!keep) depth = FIRST;
      fill(answer, keep);
    } catch (error) {
      if (error.name === "AbortError" || mine !== asked) return;
      clear();
      replace(notes, problem(error));
    } finally {
      if (mine === asked) main.removeAttribute("aria-busy");
    }
  }

  function clear() {
    [results, total, chosen] = [null, 0, -1];
    pages.clear();
    waitingFor.clear();
    for (const row of rows.values()) row.remove();
    rows.clear();
    list.style.height = "0";
    for (const part of [summary, notes, inspector, start]) replace(part);
  }

  function fill(answer, keep) {
    // Keep keyboard focus in the list when it refreshes.
    const [top, at, hadFocus] = [pane.scrollTop, chosen, list.contains(document.activeElement)];
    clear();
    results = answer;
    total = answer.total;
    answer.hits.forEach((hit, index) => pages.set(index, hit));
    list.style.height = `${total * rowHeight()}px`;
    const count = answer.more ? `${number(total)}+ results` : plural(total, "result");
    replace(summary, h("strong", null, count), ` in ${answer.took_ms < 10 ? answer.took_ms.toFixed(1) : Math.round(answer.took_ms)} ms`,
      chips());
    replace(notes, answer.incomplete.filter((note) => note.reason !== "stale").map((note) =>
      h("p", { class: "note-line" }, visibleText(note.detail))),
      // Above the list, because a narrow window shows only the list.
      total ? null : h("p", { class: "empty" }, "Nothing found. Try other words or fewer filters."));
    drawFacets(answer.facets);
    const key = JSON.stringify(wanted);
    pane.scrollTop = keep ? top : remembered.key === key ? remembered.top : 0;
    draw();
    if (total) select(keep && at >= 0 ? at : remembered.key === key && remembered.at >= 0 ? remembered.at : 0, { focus: hadFocus });
    announce(count);
  }

  async function need(index) {
    const offset = Math.floor(index / PAGE) * PAGE;
    if (waitingFor.has(offset) || !results) return;
    waitingFor.add(offset);
    const mine = asked;
    try {
      const answer = await ask("search", searchBody(wanted, offset, depth), mine.signal);
      if (mine !== asked) return;
      answer.hits.forEach((hit, at) => {
        pages.set(offset + at, hit);
        rows.get(offset + at)?.remove();
        rows.delete(offset + at);
      });
      draw();
      if (pages.has(chosen)) inspect();
    } catch (error) {
      if (error.name !== "AbortError" && mine === asked) replace(notes, problem(error));
    } finally {
      waitingFor.delete(offset);
    }
  }

  async function deepen() {
    if (!results?.more || depth === DEEP) return;
    depth = DEEP;
    results.more = false;
    await run({ keep: true });
  }

  // --- rows ---------------------------------------------------------------------------------------

  function draw() {
    if (!results) return;
    const high = rowHeight();
    const first = Math.max(0, Math.floor(pane.scrollTop / high) - 4);
    const last = Math.min(total - 1, Math.ceil((pane.scrollTop + pane.clientHeight) / high) + 4);
    for (const [index, row] of rows) {
      if ((index < first || index > last) && index !== chosen) {
        row.remove();
        rows.delete(index);
      }
    }
    for (let index = first; index <= last; index += 1) place(index, high);
    for (let index = first; index <= last; index += 1) {
      if (!pages.has(index)) {
        need(index);
        break;
      }
    }
    if (last >= total - 10) deepen();
  }

  function place(index, high = rowHeight()) {
    if (rows.has(index)) return rows.get(index);
    const hit = pages.get(index);
    const row = hit ? rowOf(hit, index) : h("li", { class: "hit waiting" }, h("span", { class: "unseen" }, "loading"));
    row.style.transform = `translateY(${index * high}px)`;
    row.setAttribute("aria-posinset", index + 1);
    row.setAttribute("aria-setsize", total);
    row.classList.toggle("chosen", index === chosen);
    rows.set(index, row);
    const after = [...rows.keys()].filter((key) => key > index).sort((a, b) => a - b)[0];
    list.insertBefore(row, after === undefined ? null : rows.get(after));
    return row;
  }

  // Commits (docs@git) and memories belong to their folder. Two folders may hold the same path.
  const folder = (collection) => collection.split("@")[0];
  const folders = () => new Set(Object.keys(results?.generations ?? {}).map(folder)).size;

  // The page, slide, range or cell of an extracted text, otherwise the lines.
  const partOf = (hit) => (hit.place ? `#${hit.place}` : `:${hit.start_line}–${hit.end_line}`);

  function rowOf(hit, index) {
    const best = pages.get(0)?.score || hit.score;
    const heads = hit.heading_path.filter((heading) => heading !== "(root)");
    const title = hit.title || heads[0] || hit.uri.split("/").pop();
    const crumbs = heads.filter((heading, at) => at || heading !== title);
    return h("li", { class: "hit", on: { mousedown: () => select(index, { focus: false }) } },
      h("div", { class: "head" },
        h("a", { class: "title", href: readLink(hit, wanted), on: { focus: () => select(index, { focus: false }), click: keep } }, name(title)),
        folders() > 1 ? h("span", { class: "tag", title: "Folder" }, name(folder(hit.collection))) : null,
        hit.lane === "docs" ? null : h("span", { class: "tag" }, KIND_NAMES[hit.lane] || hit.lane),
        hit.state === "same" ? null : h("span", { class: "tag warn" }, hit.state === "gone" ? "deleted" : `${hit.state} since indexed`),
        hit.flags.length ? h("span", { class: "tag warn" }, "hidden characters") : null,
        h("span", { class: "worth" }, spark(hit.score, hit.explanation, best))),
      h("p", { class: "crumbs" }, name(hit.uri), h("span", { class: "line" }, visibleText(partOf(hit))),
        crumbs.map((heading) => [" › ", name(heading)])),
      h("p", { class: "excerpt" }, marked(hit.excerpt.replace(/\n/g, " "), hit.excerpt_marks)));
  }

  function select(index, { focus = true } = {}) {
    if (index < 0 || index >= total) return;
    const high = rowHeight();
    const before = chosen;
    chosen = index;
    if (index * high < pane.scrollTop) pane.scrollTop = index * high;
    else if ((index + 1) * high > pane.scrollTop + pane.clientHeight) pane.scrollTop = (index + 1) * high - pane.clientHeight;
    rows.get(before)?.classList.remove("chosen");
    draw();
    place(index).classList.add("chosen");
    if (focus) rows.get(index).querySelector("a")?.focus({ preventScroll: true });
    if (before !== index || !inspector.firstChild) inspect();
  }

  function keep() {
    remembered = { key: JSON.stringify(wanted), top: pane.scrollTop, at: chosen };
  }

  function inspect() {
    const hit = pages.get(chosen);
    if (!hit) return;
    replace(inspector,
      h("h2", null, name(hit.heading_path.at(-1) === "(root)" ? hit.title || hit.uri : hit.heading_path.at(-1))),
      h("p", { class: "crumbs" }, name(hit.uri), h("span", { class: "line" }, visibleText(partOf(hit)))),
      h("p", { class: "facts" }, [folders() > 1 ? folder(hit.collection) : "", hit.language, hit.modified ? `changed ${age(hit.modified)}` : "", ...hit.tags.map((tag) => `#${tag}`)]
        .filter(Boolean).map((fact, at) => [at ? " · " : "", name(fact)])),
      h("div", { class: "actions" },
        h("a", { class: "button main", href: readLink(hit, wanted), on: { click: keep } }, "Open"),
        h("button", { type: "button", on: { click: () => copy(hit.cite) } }, "Copy citation"),
        h("a", { class: "button", href: link("graph", { c: hit.collection, around: hit.uri }) }, "Show in graph")),
      h("h3", null, "Score ", h("span", { class: "value" }, hit.score.toFixed(3))),
      explanation(hit.explanation),
      hit.also.length ? [h("h3", null, "Also at"), h("ul", { class: "plain" }, hit.also.map((copy) =>
        h("li", null, h("a", { href: readLink(copy, wanted) }, name(`${copy.uri}:${copy.start_line}`)))))] : null,
      h("h3", null, "Passage"),
      h("pre", { class: "passage", tabindex: "0", "aria-label": "Passage" }, marked(hit.text, hit.marks), hit.truncated || hit.text.length >= 1600 ? "…" : ""));
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      announce("Citation copied.");
    } catch {
      announce("The browser does not allow copying.");
    }
  }

  // --- filters ------------------------------------------------------------------------------------

  function chips() {
    const set = [...MANY.flatMap((kind) => wanted[kind].map((value) => [kind, value])),
      ...["path", "age", "after", "before", "mode"].filter((kind) => wanted[kind]).map((kind) => [kind, wanted[kind]])];
    return set.map(([kind, value]) => h("button", {
      class: "chip", type: "button", on: { click: () => turn(kind, value) },
    }, h("span", { class: "unseen" }, "Remove the filter "), name(kind === "age" ? AGES[value]?.[0] || value : kind === "after" ? `since ${value}` : kind === "before" ? `until ${value}` : value), " ×"));
  }

  function turn(kind, value) {
    if (MANY.includes(kind)) {
      wanted[kind] = wanted[kind].includes(value) ? wanted[kind].filter((other) => other !== value) : [...wanted[kind], value];
    } else {
      wanted[kind] = wanted[kind] === value ? (kind === "path" ? value.replace(/[^/]+\/$/, "") : "") : value;
    }
    go();
  }

  function drawFacets(given) {
    const held = document.activeElement?.dataset?.facet;
    const group = (title, kind, values, label = (value) => value) => values.length ? h("fieldset", null, h("legend", null, title),
      values.map(({ value, count }) => h("label", { class: "facet" },
        h("input", { type: "checkbox", checked: wanted[kind].includes(value), "data-facet": `${kind}:${value}`, on: { change: () => turn(kind, value) } }),
        h("span", { class: "what" }, name(label(value))), h("span", { class: "count" }, number(count))))) : null;
    const withSelected = (kind) => [...given[kind], ...wanted[kind].filter((v) => !given[kind].some((facet) => facet.value === v)).map((value) => ({ value, count: 0 }))];
    const up = wanted.path ? [h("button", { class: "facet up", type: "button", "data-facet": "path:up", on: { click: () => turn("path", wanted.path) } }, "‹ ", name(wanted.path))] : [];
    const choice = (text, value, now, kind, count) => h("label", { class: "facet" },
      h("input", { type: "radio", name: kind, checked: now === value, "data-facet": `${kind}:${value}`, on: { change: () => { wanted[kind] = value; if (kind === "age") wanted.after = wanted.before = ""; go(); } } }),
      h("span", { class: "what" }, text), count === undefined ? null : h("span", { class: "count" }, number(count)));
    const date = (kind, label) => h("label", { class: "date" }, label,
      h("input", { type: "date", value: wanted[kind], "data-facet": kind, on: { change: (event) => { wanted[kind] = event.target.value; wanted.age = ""; go(); } } }));
    const paths = given.path.filter((facet) => facet.value !== wanted.path);
    replace(facets,
      wanted.q ? h("fieldset", { class: "modes" }, h("legend", null, "Search by"), MODES.map(([value, text]) => choice(text, value, wanted.mode, "mode"))) : null,
      given.lane.length > 1 || wanted.lane.length ? group("Kind", "lane", withSelected("lane"), (value) => KIND_NAMES[value] || value) : null,
      paths.length || up.length ? h("fieldset", null, h("legend", null, "Folder"), up, paths.map(({ value, count }) =>
        h("button", { class: "facet", type: "button", "data-facet": `path:${value}`, on: { click: () => turn("path", value) } },
          h("span", { class: "what" }, name(value.slice(wanted.path.length))), h("span", { class: "count" }, number(count))))) : null,
      given.language.length > 1 || wanted.language.length ? group("Language", "language", withSelected("language")) : null,
      group("Tag", "tag", withSelected("tag")),
      h("fieldset", null, h("legend", null, "Changed"), choice("any time", "", wanted.age, "age"),
        Object.entries(AGES).map(([value, [text]]) => choice(text, value, wanted.age, "age", given.age.find((facet) => facet.value === value)?.count || 0)),
        h("div", { class: "dates" }, date("after", "from"), date("before", "until"))));
    if (held) facets.querySelector(`[data-facet="${CSS.escape(held)}"]`)?.focus();
  }

  // --- the start page -----------------------------------------------------------------------------

  async function overview() {
    const mine = asked;
    try {
      const known = await ask("overview", {}, mine.signal);
      if (mine !== asked) return;
      drawFacets(known.facets);
      replace(start,
        h("p", { class: "lead" }, known.documents ? ["Ask in your own words. ", h("strong", null, plural(known.documents, "document")), " in ", known.collections.map((collection, at) => [at ? ", " : "", name(collection)]), "."] : "Nothing is indexed yet. The first search indexes it."),
        h("p", { class: "hints" }, ["how do I roll back", "\"an exact phrase\"", "getUserById", "setup -windows"].map((example) =>
          h("button", { type: "button", class: "chip", on: { click: () => { field.value = example; typed(); field.focus(); } } }, example))),
        known.recent.length ? [h("h2", null, "Recently changed"), h("ul", { class: "recent" }, known.recent.map((entry) =>
          h("li", null, h("a", { href: link("read", { c: entry.collection, u: entry.uri }) }, name(entry.title || entry.uri.split("/").pop())),
            h("span", { class: "crumbs" }, name(entry.uri)), h("span", { class: "when" }, age(entry.modified)))))] : null);
    } catch (error) {
      if (error.name !== "AbortError") replace(start, problem(error));
    }
  }

  // --- lifecycle ----------------------------------------------------------------------------------

  function go() {
    history.replaceState(null, "", link("search", wanted));
    run();
  }

  function typed() {
    wanted.q = field.value;
    history.replaceState(null, "", link("search", wanted));
    main.setAttribute("aria-busy", "true"); // The results shown no longer match the query.
    clearTimeout(timer);
    timer = setTimeout(run, WAIT);
  }

  const scrolled = () => {
    cancelAnimationFrame(frameAsked);
    frameAsked = requestAnimationFrame(draw);
  };
  pane.addEventListener("scroll", scrolled, { passive: true });
  const resized = new ResizeObserver(() => {
    if (!results) return;
    list.style.height = `${total * rowHeight()}px`;
    for (const row of rows.values()) row.remove();
    rows.clear();
    draw();
  });
  resized.observe(pane);
  run();

  return {
    update(given) {
      const next = parseSearch(given);
      if (JSON.stringify(next) === JSON.stringify(wanted)) return;
      wanted = next;
      if (field.value !== wanted.q) field.value = wanted.q;
      run();
    },
    leave() {
      asked?.abort();
      clearTimeout(timer);
      main.removeAttribute("aria-busy");
      resized.disconnect();
      document.body.removeAttribute("data-searching");
    },
    keys: {
      typed,
      field(event) {
        if (event.key === "ArrowDown" && total) select(Math.max(chosen, 0));
        else if (event.key === "Enter" && pages.has(chosen)) {
          keep();
          location.hash = readLink(pages.get(chosen), wanted);
          field.blur();
        } else if (event.key === "Enter") run();
        else if (event.key === "Escape" && field.value) {
          field.value = "";
          typed();
        } else return false;
        return true;
      },
      j: () => (select(document.activeElement?.closest(".hit") ? chosen + 1 : Math.max(chosen, 0)), true),
      k: () => (select(Math.max(chosen - 1, 0)), true),
      Enter(event) {
        if (event.target.closest("a, button, summary, label, input") || !pages.has(chosen)) return false;
        keep();
        location.hash = readLink(pages.get(chosen), wanted);
        return true;
      },
      f() {
        filters.setAttribute("open", "");
        facets.querySelector("input, button")?.focus();
        return true;
      },
      Escape() {
        field.focus();
        return true;
      },
    },
  };
}
