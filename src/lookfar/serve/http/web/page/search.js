// Search as you type: filters on the left, results in the middle, the chosen one on the right.
// Only the rows that can be seen exist, so ten thousand results cost no more than ten.

import { age, announce, h, link, marked, name, number, problem, replace, s, several, shown } from "/web/dom.js";
import { ask } from "/web/api.js";
import { spark, story } from "/web/chart.js";

const PAGE = 25;
const FIRST = 100;
const DEEP = 10000;
const WAIT = 40;
const DAY = 86400000;
const AGES = { day: ["past day", 1], week: ["past week", 7], month: ["past month", 31], year: ["past year", 366] };
const LANES = { docs: "Documents", code: "Code", commits: "Commits", memory: "Memories", documents: "Inserted" };
const MODES = [["", "Both"], ["keyword", "Words"], ["vector", "Meaning"]];
const MANY = ["lane", "language", "tag"];

// What somebody saw last, for when they come back from reading.
let remembered = { key: "", top: 0, at: -1 };

export const readLink = (hit, query) => link("read", {
  c: hit.collection, u: hit.uri, s: hit.start_line, e: hit.end_line, q: query,
});

export function show(main, params, frame) {
  const { field } = frame;
  let wanted = from(params);
  let [found, pages, total, depth, chosen] = [null, new Map(), 0, FIRST, -1];
  let [asked, timer, frameAsked, waitingFor] = [null, 0, 0, new Set()];
  const rows = new Map();

  const facets = h("div", { class: "facets" });
  const summary = h("p", { class: "summary" });
  const list = h("ol", { class: "list", "aria-label": "Results" });
  const pane = h("div", { class: "results", tabindex: "-1" }, list);
  const notes = h("div", { class: "notes" });
  const inspector = h("aside", { class: "inspector", "aria-label": "The chosen result" });
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

  function from(given) {
    return {
      q: given.get("q") || "", mode: given.get("mode") || "", path: given.get("path") || "",
      after: given.get("after") || "", before: given.get("before") || "", age: given.get("age") || "",
      lane: given.getAll("lane"), language: given.getAll("language"), tag: given.getAll("tag"),
    };
  }

  function body(offset, deep) {
    const since = Object.hasOwn(AGES, wanted.age) ? new Date(Date.now() - AGES[wanted.age][1] * DAY).toISOString().slice(0, 10) : wanted.after;
    return {
      query: wanted.q, mode: wanted.mode, prefix: wanted.path, lanes: wanted.lane, languages: wanted.language,
      tags: wanted.tag, after: since, before: wanted.before, offset, limit: PAGE, depth: deep,
    };
  }

  // --- asking -------------------------------------------------------------------------------------

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
      const answer = await ask("search", body(0, keep ? depth : FIRST), mine.signal);
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
    [found, total, chosen] = [null, 0, -1];
    pages.clear();
    waitingFor.clear();
    for (const row of rows.values()) row.remove();
    rows.clear();
    list.style.height = "0";
    for (const each of [summary, notes, inspector, start]) replace(each);
  }

  function fill(answer, keep) {
    // Whoever walks through the list still does when it is filled anew.
    const [top, at, walking] = [pane.scrollTop, chosen, list.contains(document.activeElement)];
    clear();
    found = answer;
    total = answer.total;
    answer.hits.forEach((hit, index) => pages.set(index, hit));
    list.style.height = `${total * rowHeight()}px`;
    const count = answer.more ? `${number(total)}+ results` : several(total, "result");
    replace(summary, h("strong", null, count), ` in ${answer.took_ms < 10 ? answer.took_ms.toFixed(1) : Math.round(answer.took_ms)} ms`,
      chips());
    replace(notes, answer.incomplete.filter((each) => each.reason !== "stale").map((each) =>
      h("p", { class: "note-line" }, shown(each.detail))),
      // Not beside the list: a narrow window shows only the list.
      total ? null : h("p", { class: "empty" }, "Nothing found. Try other words, or fewer filters."));
    drawFacets(answer.facets);
    const key = JSON.stringify(wanted);
    pane.scrollTop = keep ? top : remembered.key === key ? remembered.top : 0;
    draw();
    if (total) select(keep && at >= 0 ? at : remembered.key === key && remembered.at >= 0 ? remembered.at : 0, { focus: walking });
    announce(count);
  }

  async function need(index) {
    const offset = Math.floor(index / PAGE) * PAGE;
    if (waitingFor.has(offset) || !found) return;
    waitingFor.add(offset);
    const mine = asked;
    try {
      const answer = await ask("search", body(offset, depth), mine.signal);
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
    if (!found?.more || depth === DEEP) return;
    depth = DEEP;
    found.more = false;
    await run({ keep: true });
  }

  // --- rows ---------------------------------------------------------------------------------------

  function draw() {
    if (!found) return;
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
    const after = [...rows.keys()].filter((each) => each > index).sort((a, b) => a - b)[0];
    list.insertBefore(row, after === undefined ? null : rows.get(after));
    return row;
  }

  // Commits (docs@git) and memories belong to their folder. Two folders may hold the same path.
  const folder = (collection) => collection.split("@")[0];
  const folders = () => new Set(Object.keys(found?.generations ?? {}).map(folder)).size;

  function rowOf(hit, index) {
    const best = pages.get(0)?.score || hit.score;
    const heads = hit.heading_path.filter((each) => each !== "(root)");
    const title = hit.title || heads[0] || hit.uri.split("/").pop();
    const crumbs = heads.filter((each, at) => at || each !== title);
    return h("li", { class: "hit", on: { mousedown: () => select(index, { focus: false }) } },
      h("div", { class: "head" },
        h("a", { class: "title", href: readLink(hit, wanted.q), on: { focus: () => select(index, { focus: false }), click: keep } }, name(title)),
        folders() > 1 ? h("span", { class: "tag", title: "Folder" }, name(folder(hit.collection))) : null,
        hit.lane === "docs" ? null : h("span", { class: "tag" }, LANES[hit.lane] || hit.lane),
        hit.state === "same" ? null : h("span", { class: "tag warn" }, hit.state === "gone" ? "gone from disk" : `${hit.state} since indexed`),
        hit.flags.length ? h("span", { class: "tag warn" }, "hidden characters") : null,
        h("span", { class: "worth" }, spark(hit.score, hit.explanation, best))),
      h("p", { class: "crumbs" }, name(hit.uri), h("span", { class: "line" }, `:${hit.start_line}–${hit.end_line}`),
        crumbs.map((each) => [" › ", name(each)])),
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
      h("p", { class: "crumbs" }, name(hit.uri), h("span", { class: "line" }, `:${hit.start_line}–${hit.end_line}`)),
      h("p", { class: "facts" }, [folders() > 1 ? folder(hit.collection) : "", hit.language, hit.modified ? `changed ${age(hit.modified)}` : "", ...hit.tags.map((each) => `#${each}`)]
        .filter(Boolean).map((each, at) => [at ? " · " : "", name(each)])),
      h("div", { class: "actions" },
        h("a", { class: "button main", href: readLink(hit, wanted.q), on: { click: keep } }, "Open"),
        h("button", { type: "button", on: { click: () => copy(hit.cite) } }, "Copy citation"),
        h("a", { class: "button", href: link("graph", { c: hit.collection, around: hit.uri }) }, "In the graph")),
      h("h3", null, "Why it is here ", h("span", { class: "value" }, hit.score.toFixed(3))),
      story(hit.explanation),
      hit.also.length ? [h("h3", null, "Also at"), h("ul", { class: "plain" }, hit.also.map((each) =>
        h("li", null, h("a", { href: readLink(each, wanted.q) }, name(`${each.uri}:${each.start_line}`)))))] : null,
      h("h3", null, "The passage"),
      h("pre", { class: "passage", tabindex: "0", "aria-label": "The passage" }, marked(hit.text, hit.marks), hit.truncated || hit.text.length >= 1600 ? "…" : ""));
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      announce("The citation is copied.");
    } catch {
      announce("The browser does not let this page copy.");
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
      wanted[kind] = wanted[kind].includes(value) ? wanted[kind].filter((each) => each !== value) : [...wanted[kind], value];
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
    const kept = (kind) => [...given[kind], ...wanted[kind].filter((v) => !given[kind].some((each) => each.value === v)).map((value) => ({ value, count: 0 }))];
    const up = wanted.path ? [h("button", { class: "facet up", type: "button", "data-facet": "path:up", on: { click: () => turn("path", wanted.path) } }, "‹ ", name(wanted.path))] : [];
    const choice = (text, value, now, kind, count) => h("label", { class: "facet" },
      h("input", { type: "radio", name: kind, checked: now === value, "data-facet": `${kind}:${value}`, on: { change: () => { wanted[kind] = value; if (kind === "age") wanted.after = wanted.before = ""; go(); } } }),
      h("span", { class: "what" }, text), count === undefined ? null : h("span", { class: "count" }, number(count)));
    const date = (kind, label) => h("label", { class: "date" }, label,
      h("input", { type: "date", value: wanted[kind], "data-facet": kind, on: { change: (event) => { wanted[kind] = event.target.value; wanted.age = ""; go(); } } }));
    const paths = given.path.filter((each) => each.value !== wanted.path);
    replace(facets,
      wanted.q ? h("fieldset", { class: "modes" }, h("legend", null, "Search by"), MODES.map(([value, text]) => choice(text, value, wanted.mode, "mode"))) : null,
      given.lane.length > 1 || wanted.lane.length ? group("Kind", "lane", kept("lane"), (value) => LANES[value] || value) : null,
      paths.length || up.length ? h("fieldset", null, h("legend", null, "Folder"), up, paths.map(({ value, count }) =>
        h("button", { class: "facet", type: "button", "data-facet": `path:${value}`, on: { click: () => turn("path", value) } },
          h("span", { class: "what" }, name(value.slice(wanted.path.length))), h("span", { class: "count" }, number(count))))) : null,
      given.language.length > 1 || wanted.language.length ? group("Language", "language", kept("language")) : null,
      group("Tag", "tag", kept("tag")),
      h("fieldset", null, h("legend", null, "Changed"), choice("any time", "", wanted.age, "age"),
        Object.entries(AGES).map(([value, [text]]) => choice(text, value, wanted.age, "age", given.age.find((each) => each.value === value)?.count || 0)),
        h("div", { class: "dates" }, date("after", "from"), date("before", "until"))));
    if (held) facets.querySelector(`[data-facet="${CSS.escape(held)}"]`)?.focus();
  }

  // --- before anything is asked -------------------------------------------------------------------

  async function overview() {
    const mine = asked;
    try {
      const known = await ask("overview", {}, mine.signal);
      if (mine !== asked) return;
      drawFacets(known.facets);
      replace(start,
        h("p", { class: "lead" }, known.documents ? ["Ask in your own words. ", h("strong", null, several(known.documents, "document")), " of ", known.collections.map((each, at) => [at ? ", " : "", name(each)]), " can answer."] : "Nothing is indexed yet. The first question does it."),
        h("p", { class: "hints" }, ["how do I roll back", "\"an exact phrase\"", "getUserById", "setup -windows"].map((each) =>
          h("button", { type: "button", class: "chip", on: { click: () => { field.value = each; typed(); field.focus(); } } }, each))),
        known.recent.length ? [h("h2", null, "Changed last"), h("ul", { class: "recent" }, known.recent.map((each) =>
          h("li", null, h("a", { href: link("read", { c: each.collection, u: each.uri }) }, name(each.title || each.uri.split("/").pop())),
            h("span", { class: "crumbs" }, name(each.uri)), h("span", { class: "when" }, age(each.modified)))))] : null);
    } catch (error) {
      if (error.name !== "AbortError") replace(start, problem(error));
    }
  }

  // --- coming and going ---------------------------------------------------------------------------

  function go() {
    history.replaceState(null, "", link("search", wanted));
    run();
  }

  function typed() {
    wanted.q = field.value;
    history.replaceState(null, "", link("search", wanted));
    main.setAttribute("aria-busy", "true"); // What is shown is no longer what was asked for.
    clearTimeout(timer);
    timer = setTimeout(run, WAIT);
  }

  const scrolled = () => {
    cancelAnimationFrame(frameAsked);
    frameAsked = requestAnimationFrame(draw);
  };
  pane.addEventListener("scroll", scrolled, { passive: true });
  const resized = new ResizeObserver(() => {
    if (!found) return;
    list.style.height = `${total * rowHeight()}px`;
    for (const row of rows.values()) row.remove();
    rows.clear();
    draw();
  });
  resized.observe(pane);
  run();

  return {
    update(given) {
      const next = from(given);
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
          location.hash = readLink(pages.get(chosen), wanted.q);
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
        location.hash = readLink(pages.get(chosen), wanted.q);
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
