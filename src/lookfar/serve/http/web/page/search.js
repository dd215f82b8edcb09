// Search as you type: filters on the left, results in the middle, the selected one on the right.
// Without words, filters list documents; without either, the start page suggests what to ask.

import { age, announce, h, link, name, number, problem, replace, plural, visibleText } from "/web/dom.js";
import { ask } from "/web/api.js";
import { createFilters, nameFilter, turn } from "/web/filters.js";
import { createList } from "/web/list.js";
import { isEmpty, listFilters, PAGE, parseSearch, readLink, searchBody } from "/web/query.js";
import { drawInspector, folderOf, keyOf, makeRow } from "/web/rows.js";

export { parseSearch, readLink, searchBody };

const FIRST = 100;
const DEEP = 10000;
const WAIT = 40;
const AGAIN = 500;

// The passages that answer a question, or without one the documents that filters admit.
const rowsOf = (answer) => (answer.query.trim() ? answer.hits : answer.documents);

// The last position in the list, for when the user comes back from reading.
let remembered = { key: "", top: 0, at: -1 };

export function show(main, params, frame) {
  const { field } = frame;
  let wanted = parseSearch(params);
  let typing = frame.typing; // Whether the current history entry is one that typing replaces.
  let [results, hits, total, depth] = [null, new Map(), 0, FIRST];
  let [asked, timer, waitingFor, inspected] = [null, 0, new Set(), ""];
  let waiting = false; // Whether the start page shows that there are no documents.

  const facets = h("div", { class: "facets" });
  const summary = h("p", { class: "summary" });
  const list = h("ol", { class: "list", "aria-label": "Results" });
  const pane = h("div", { class: "results", tabindex: "-1" }, list);
  const notes = h("div", { class: "notes" });
  const inspector = h("aside", { class: "inspector", "aria-label": "Selected result" });
  const start = h("section", { class: "start", "aria-label": "Overview" });
  const details = h("details", { class: "filters", open: true }, h("summary", null, "Filters"), facets);
  replace(main, h("h1", { class: "unseen" }, "Search"),
    h("div", { class: "finder" },
      h("section", { class: "side", "aria-label": "Filters" }, details),
      h("section", { class: "middle", "aria-label": "Results" }, summary, notes, pane, start),
      inspector));
  if (matchMedia("(max-width: 60rem)").matches) details.removeAttribute("open");
  field.value = wanted.q;

  const context = {
    wanted: () => wanted,
    best: () => hits.get(0)?.score,
    several: () => new Set(Object.keys(results?.generations ?? {}).map(folderOf)).size > 1,
    onFocus: (index) => select(index, { focus: false }),
    onOpen: keep,
  };
  const filters = createFilters(facets, { wanted: () => wanted, go });
  const view = createList({ pane, list, keyOf, makeRow: () => makeRow(context), onMissing: need, onEnd: deepen });

  // --- requests -----------------------------------------------------------------------------------

  async function run({ keep = false } = {}) {
    clearTimeout(timer);
    timer = 0;
    asked?.abort();
    asked = new AbortController();
    const mine = asked;
    document.body.toggleAttribute("data-searching", !isEmpty(wanted));
    if (isEmpty(wanted)) {
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
      // If more was typed, newer results will follow.
      if (mine === asked && !timer) main.removeAttribute("aria-busy");
    }
  }

  function clear() {
    [results, total, hits, inspected] = [null, 0, new Map(), ""];
    waitingFor.clear();
    view.chosen = -1;
    view.fill(hits, 0);
    view.draw();
    for (const part of [summary, notes, inspector, start]) replace(part);
    waiting = false;
  }

  function fill(answer, keep) {
    const before = keep && hits.get(view.chosen) ? keyOf(hits.get(view.chosen)) : "";
    [results, total] = [answer, answer.total];
    hits = new Map(rowsOf(answer).map((hit, index) => [index, hit]));
    waitingFor.clear();
    replace(start);
    waiting = false;
    const noun = answer.query.trim() ? "result" : "document";
    const count = answer.more ? `${number(total)}+ ${noun}s` : plural(total, noun);
    replace(summary, h("strong", null, count), ` in ${answer.took_ms < 10 ? answer.took_ms.toFixed(1) : Math.round(answer.took_ms)} ms`, chips());
    const filtered = listFilters(wanted).length > 0;
    const unsure = answer.incomplete.some((note) => note.reason === "nothing_relevant");
    replace(notes, answer.incomplete.filter((note) => note.reason !== "stale" && !(filtered && note.reason === "nothing_relevant")).map((note) =>
      h("p", { class: "note-line" }, visibleText(note.detail))),
      // Above the list, because a narrow window shows only the list.
      filtered && (unsure || !total) ? h("p", { class: total ? "note-line" : "empty" }, total ? "Little was found with these filters. " : "Nothing found with these filters. ",
        h("button", { type: "button", class: "chip unfilter", on: { click: () => go({ ...parseSearch(new URLSearchParams()), q: wanted.q, mode: wanted.mode }) } }, wanted.q.trim() ? "Search without filters" : "Remove the filters"))
        : total ? null : h("p", { class: "empty" }, "Nothing found. Try other words."));
    filters.draw(answer.facets);
    const key = JSON.stringify(wanted);
    const back = !keep && remembered.key === key;
    const reading = view.fill(hits, total); // The place of the row that has the focus, or -1.
    if (!keep && reading < 0) pane.scrollTop = back ? remembered.top : 0;
    const found = before ? view.find(before) : -1;
    if (reading >= 0) view.chosen = reading;
    else view.chosen = Math.min(total - 1, keep ? (found >= 0 ? found : Math.max(view.chosen, 0)) : back ? Math.max(remembered.at, 0) : 0);
    view.draw();
    if (total) inspect();
    else replace(inspector);
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
      rowsOf(answer).forEach((hit, at) => hits.set(offset + at, hit));
      view.draw();
      inspect();
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

  // --- choosing -----------------------------------------------------------------------------------

  function select(index, { focus = true } = {}) {
    if (index < 0 || index >= total) return;
    view.choose(index, focus);
    inspect();
  }

  function inspect() {
    const hit = hits.get(view.chosen);
    const signature = JSON.stringify([hit, wanted]);
    if (!hit || signature === inspected) return;
    inspected = signature;
    drawInspector(inspector, hit, context);
  }

  function keep() {
    typing = false;
    remembered = { key: JSON.stringify(wanted), top: pane.scrollTop, at: view.chosen };
  }

  function open() {
    keep();
    location.hash = readLink(hits.get(view.chosen), wanted);
  }

  const chips = () => listFilters(wanted).map(([kind, value]) => h("button", {
    class: "chip", type: "button", on: { click: () => go(turn(wanted, kind, value)) },
  }, h("span", { class: "unseen" }, "Remove the filter "), name(nameFilter(kind, value)), " ×"));

  // --- the start page -----------------------------------------------------------------------------

  // Without documents: whether they are being read, or why there are none.
  function describeEmpty(state) {
    const collections = state?.collections ?? [];
    const busy = collections.find((collection) => collection.building_since);
    const failed = collections.find((collection) => collection.failure);
    if (busy?.progress?.total_files) return `Reading your files: ${number(busy.progress.files)} of ${number(busy.progress.total_files)}`;
    if (busy || !state) return "Reading your files…";
    if (failed) return ["Your files could not be read. ", visibleText(failed.failure)];
    if (collections.some((collection) => collection.indexed)) return ["No files were indexed. ", h("a", { href: link("health") }, "Health"), " lists the skipped files and why."];
    return "Nothing is indexed yet. The first search indexes it.";
  }

  const hasDocuments = (state) => Boolean(state?.collections.some((collection) => collection.documents));

  async function overview() {
    const mine = asked;
    try {
      const known = await ask("overview", {}, mine.signal);
      if (mine !== asked) return;
      waiting = !known.documents;
      filters.draw({ ...known.facets, property: known.properties });
      const { titles, questions, symbols, tags, folders } = known.suggestions;
      const chip = (text, onClick) => h("button", { type: "button", class: "chip", on: { click: onClick } }, name(text));
      const example = (text) => chip(text, () => { field.value = text; typed(); field.focus(); });
      const row = (label, chips) => (chips.length ? h("div", { class: "hints", role: "group", "aria-label": label }, h("span", { class: "small" }, label), h("div", null, chips)) : null);
      replace(start,
        h("p", { class: "lead" }, known.documents ? ["Ask in your own words. ", h("strong", null, plural(known.documents, "document")), " in ", known.collections.map((collection, at) => [at ? ", " : "", name(collection)]), "."] : describeEmpty(frame.state())),
        row("Ask", [...questions, ...symbols].map(example)),
        row("Open", titles.map(example)),
        row("Tags", tags.map((tag) => chip(`#${tag}`, () => go({ ...wanted, tag: [tag] })))),
        row("Folders", folders.map((path) => chip(path, () => go({ ...wanted, path })))),
        known.recent.length ? [h("h2", null, "Recently changed"), h("ul", { class: "recent" }, known.recent.map((entry) =>
          h("li", null, h("a", { href: link("read", { c: entry.collection, u: entry.uri }) }, name(entry.title || entry.uri.split("/").pop())),
            h("span", { class: "crumbs" }, name(entry.uri)), h("span", { class: "when" }, age(entry.modified)))))] : null);
      // The index was completed while the server counted.
      if (waiting && hasDocuments(frame.state())) timer = setTimeout(overview, AGAIN);
    } catch (error) {
      if (error.name !== "AbortError") replace(start, problem(error));
    }
  }

  // --- the address and the index ------------------------------------------------------------------

  // Each filter is a step of the history, and so is a search as a whole, not each letter.
  function go(next) {
    typing = false;
    if (JSON.stringify(next) === JSON.stringify(wanted)) return;
    wanted = next;
    history.pushState(null, "", link("search", wanted));
    run();
  }

  function typed() {
    wanted = { ...wanted, q: field.value };
    if (typing) history.replaceState(null, "", link("search", wanted));
    else history.pushState(null, "", link("search", wanted));
    typing = true;
    main.setAttribute("aria-busy", "true"); // The results shown no longer match the query.
    clearTimeout(timer);
    timer = setTimeout(run, WAIT);
  }

  // While the list or its selected result is being read, the reader decides when it changes.
  let seen = null;
  const unlisten = frame.onState((state) => {
    const mark = JSON.stringify(state.collections.map((item) => [item.collection, item.generation, item.held]));
    const changed = seen !== null && mark !== seen;
    seen = mark;
    if (waiting && !results && isEmpty(wanted)) {
      const lead = start.querySelector(".lead");
      if (hasDocuments(state)) overview();
      else if (lead) replace(lead, describeEmpty(state));
      return;
    }
    if (!changed || main.hasAttribute("aria-busy")) return;
    const reads = view.hasFocus() || inspector.contains(document.activeElement) || start.contains(document.activeElement);
    if (!reads && (!results || pane.scrollTop === 0)) run({ keep: true });
    else if (!summary.querySelector(".renew")) {
      summary.append(h("button", { type: "button", class: "chip renew", on: { click: () => run({ keep: true }) } }, "The index has changed: show new results"));
    }
  });
  run();

  return {
    update(given) {
      const next = parseSearch(given);
      if (JSON.stringify(next) === JSON.stringify(wanted)) return;
      [wanted, typing] = [next, false];
      if (field.value !== wanted.q) field.value = wanted.q;
      run();
    },
    leave() {
      asked?.abort();
      clearTimeout(timer);
      unlisten();
      view.leave();
      main.removeAttribute("aria-busy");
      document.body.removeAttribute("data-searching");
    },
    keys: {
      typed,
      field(event) {
        if (event.key === "ArrowDown" && total) select(Math.max(view.chosen, 0));
        else if (event.key === "Enter" && hits.has(view.chosen)) {
          open();
          field.blur();
        } else if (event.key === "Enter") {
          typing = false;
          run();
        } else return false;
        return true;
      },
      j: () => (select(document.activeElement?.closest(".hit") ? view.chosen + 1 : Math.max(view.chosen, 0)), true),
      k: () => (select(Math.max(view.chosen - 1, 0)), true),
      Enter(event) {
        if (event.target.closest("a, button, summary, label, input") || !hits.has(view.chosen)) return false;
        open();
        return true;
      },
      f() {
        details.setAttribute("open", "");
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
