// The stored generations of the index: a timeline with its legend, what changed since a day
// (Monday, yesterday), and rollback. Rolling back asks first, because it changes everyone's answers.

import { age, announce, confirm, h, link, name, number, problem, replace, s, plural, visibleText } from "/web/dom.js";
import { ask } from "/web/api.js";

const MOST = 200;
const EXAMPLES = ["today", "yesterday", "Monday", "last week", "last month"];
const LEGEND = [["added", "added"], ["changed", "changed"], ["removed", "removed"]];

export function show(main, params, frame) {
  const leaving = new AbortController();
  let collection = params.get("c") || "";
  let since = params.get("since") || "";
  let [generations, held, later] = [[], null, null];
  let compared = null;

  const banner = h("div", { class: "banner" });
  const line = h("div", { class: "timeline" });
  const difference = h("section", { class: "difference", "aria-label": "What changed", tabindex: "-1" });
  const picker = h("div");
  const words = h("input", { id: "since", type: "text", value: since, placeholder: "Monday", on: { keydown: (event) => event.key === "Enter" && askSince(words.value) } });
  replace(main, h("div", { class: "history" },
    h("header", { class: "head-line" }, h("h1", null, "History"), picker,
      h("p", { class: "small" }, "Each indexing pass that changed something made a generation. You can go back to any that is kept.")),
    banner,
    h("div", { class: "controls since", role: "group", "aria-label": "What changed" },
      h("label", { for: "since" }, "What changed since"), words, h("button", { type: "button", class: "main", on: { click: () => askSince(words.value) } }, "Show"),
      EXAMPLES.map((text) => h("button", { type: "button", class: "chip", on: { click: () => askSince(text) } }, text))),
    difference, line));
  let seen = null;
  const unlisten = frame.onState((state) => {
    names(state.collections.map((item) => item.collection));
    const now = state.collections.find((item) => item.collection === collection) || state.collections[0];
    const mark = JSON.stringify([now?.generation, now?.generations, now?.held]);
    if (mark !== seen) load();
    seen = mark;
  });

  function names(all) {
    if (all.length < 2 || picker.firstChild) return;
    const choice = h("select", { "aria-label": "Collection", on: { change: (event) => { collection = event.target.value; replace(difference); load(); } } },
      all.map((option) => h("option", { value: option }, option)));
    choice.value = collection || all[0];
    replace(picker, choice);
  }

  async function load() {
    try {
      const answer = await ask("generations", { collection }, leaving.signal);
      collection = answer.collection;
      [generations, held] = [answer.snapshots, answer.held];
      draw();
    } catch (error) {
      if (error.name !== "AbortError") replace(line, problem(error));
    }
  }

  function draw() {
    const newest = generations.at(-1);
    replace(banner, held === null ? null : h("div", { class: "note-line warn" },
      `Rolled back to generation ${held}; later changes are ignored. `,
      newest && newest.generation !== held ? h("button", { type: "button", on: { click: () => back(newest) } }, "Return to the newest") : null));
    if (!generations.length) return replace(line, h("p", { class: "empty" }, "Nothing is indexed yet."));
    const active = generations.find((generation) => generation.active);
    const shown = [...generations].reverse().filter((generation) => !later || later.includes(generation.generation));
    replace(line, picture(), legend(),
      later ? h("p", { class: "note-line" }, `${plural(shown.length, "generation")} since then. `, h("button", { type: "button", on: { click: everything } }, "Show all")) : null,
      h("ol", { class: "generations" }, shown.map((generation) => {
        const before = generations[generations.indexOf(generation) - 1];
        return h("li", { class: `${generation.active ? "active" : ""}${generation.generation === held ? " held" : ""}${generation.pinned ? " pinned" : ""}` },
          h("div", { class: "what" },
            h("h2", null, h("time", { title: generation.created_at }, when(generation)), h("span", { class: "small" }, ` Generation ${generation.generation}`), generation.active ? h("span", { class: "tag good" }, "active") : null, generation.pinned ? h("span", { class: "tag" }, "pinned") : null),
            h("p", { class: "small" }, `${age(generation.created_at)} · ${plural(generation.documents, "document")}`),
            h("details", { class: "small" }, h("summary", null, "Details", which(" of", generation)), `${plural(generation.chunks, "chunk")}, model `, name(generation.model))),
          h("p", { class: "delta" },
            h("span", { class: "plus" }, `+${number(generation.added)}`), " ",
            h("span", { class: "change" }, `~${number(generation.changed)}`), " ",
            h("span", { class: "minus" }, `−${number(generation.removed)}`),
            h("span", { class: "unseen" }, ` ${generation.added} added, ${generation.changed} changed, ${generation.removed} removed`)),
          h("div", { class: "actions" },
            before ? h("button", { type: "button", on: { click: () => compare(before, generation) } }, "What changed", which(" in", generation)) : null,
            active && !generation.active ? h("button", { type: "button", on: { click: () => compare(...(generation.generation < active.generation ? [generation, active] : [active, generation])) } }, "Compare with now", which(":", generation)) : null,
            generation.active ? null : h("button", { type: "button", class: "danger", on: { click: () => back(generation) } }, held !== null && generation.generation > held ? "Roll forward…" : "Roll back…", which(" to", generation)),
            generation.active ? null : h("span", { class: "small" }, "Your files are not changed.")));
      })));
  }

  const when = (generation) => new Date(generation.created_at).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" });
  const which = (how, generation) => h("span", { class: "unseen" }, `${how} generation ${generation.generation}`);

  const legend = () => h("ul", { class: "legend-line", "aria-label": "Legend" },
    LEGEND.map(([kind, label]) => h("li", null, h("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), label)),
    [["active", "active: answers come from it"], ["held", "rolled back to"], ["pinned", "pinned: always kept"], ["", "kept"]].map(([kind, label]) =>
      h("li", null, h("i", { class: `state ${kind}`, "aria-hidden": "true" }), label)));

  // A bar chart of the changes in each generation, oldest first.
  function picture() {
    const [wide, high] = [720, 64];
    const step = Math.min(48, wide / generations.length);
    const most = Math.max(...generations.map((generation) => Math.log1p(generation.added + generation.changed + generation.removed)), 1);
    return s("svg", { class: "plot pulse-line", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${plural(generations.length, "generation")}, oldest first` },
      s("path", { class: "grid", d: `M0 ${high - 0.5}H${wide}` }),
      generations.map((generation, at) => {
        const sum = generation.added + generation.changed + generation.removed || 1;
        let y = high - 2;
        return ["removed", "changed", "added"].map((kind) => {
          const long = ((Math.log1p(sum) / most) * (high - 8) * generation[kind]) / sum;
          y -= long;
          return s("rect", { class: `${kind}${generation.active ? " now" : ""}`, x: (at * step + 2).toFixed(1), y: y.toFixed(1), width: Math.max(step - 6, 2).toFixed(1), height: long.toFixed(1), rx: 1 });
        });
      }));
  }

  // --- what changed -------------------------------------------------------------------------------

  const remember = () => history.replaceState(null, "", link("generations", { c: params.get("c") || "", since }));

  async function askSince(text) {
    since = text.trim();
    words.value = since;
    if (!since) return everything();
    remember();
    try {
      const answer = await ask("changes", { since, collection }, leaving.signal);
      compared = null;
      later = answer.generations;
      if (generations.length) draw();
      drawSince(answer);
    } catch (error) {
      if (error.name !== "AbortError") replace(difference, problem(error));
    }
  }

  function everything() {
    [since, later] = ["", null];
    words.value = "";
    remember();
    replace(difference);
    draw();
  }

  function drawSince(answer) {
    const day = (iso) => new Date(iso).toLocaleString("en", { weekday: "long", day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit" });
    replace(difference, h("h2", null, `Since ${day(answer.since)}`),
      answer.complete ? null : h("p", { class: "note-line" }, answer.base_created_at ? `The index keeps nothing that old. Compared with the oldest generation kept, of ${day(answer.base_created_at)}.` : "Nothing is indexed yet."),
      answer.diff ? changes(answer.diff, answer.base) : h("p", { class: "empty" }, "No document changed."),
      answer.commits.length ? [h("h3", null, "Commits ", h("span", { class: "count" }, number(answer.commits.length))),
        h("ul", { class: "changes commits" }, answer.commits.map((commit) => h("li", null,
          h("a", { href: link("read", { c: commit.collection, u: commit.hash }) }, visibleText(commit.title)),
          h("span", { class: "small" }, " ", name(commit.author), ", ", age(commit.committed_at), `, ${plural(commit.files, "file")}`))))] : null);
    finish(answer.diff ? `${answer.diff.added.length} added, ${answer.diff.removed.length} removed, ${answer.diff.changed.length} changed` : "No document changed.");
  }

  async function compare(older, newer) {
    compared = [older, newer];
    try {
      const diff = await ask("diff", { collection, older: older.generation, newer: newer.generation }, leaving.signal);
      replace(difference, h("h2", null, `From generation ${diff.older} to ${diff.newer}`), changes(diff, diff.older));
      finish(`${diff.added.length} added, ${diff.removed.length} removed, ${diff.changed.length} changed`);
    } catch (error) {
      if (error.name !== "AbortError") replace(difference, problem(error));
    }
  }

  function finish(text) {
    difference.scrollIntoView({ block: "nearest" });
    difference.focus({ preventScroll: true });
    announce(text);
  }

  function changes(diff, base) {
    const then = (uri, label) => h("a", { class: "then", href: link("earlier", { c: collection, u: uri, g: base }) }, label, h("span", { class: "unseen" }, " of ", uri));
    const files = (title, kind, list) => list.length ? [h("h3", null, title, " ", h("span", { class: "count" }, number(list.length))),
      h("ul", { class: `changes ${kind}` }, list.slice(0, MOST).map((uri) => h("li", null, kind === "minus" ? [name(uri), " ", then(uri, "last text")] : h("a", { href: link("read", { c: collection, u: uri }) }, name(uri)))),
        list.length > MOST ? h("li", { class: "small" }, `and ${number(list.length - MOST)} more`) : null)] : null;
    const heads = (sign, kind, paths) => paths.map((path) => h("li", { class: kind }, sign, " ", path.length ? name(path.join(" › ")) : "the beginning"));
    return [files("Added", "plus", diff.added), files("Removed", "minus", diff.removed),
      diff.changed.length ? [h("h3", null, "Changed ", h("span", { class: "count" }, number(diff.changed.length))),
        h("ul", { class: "changes" }, diff.changed.slice(0, MOST).map((file) => h("li", null,
          h("a", { href: link("read", { c: collection, u: file.uri }) }, name(file.uri)), " ", then(file.uri, "what it said"),
          h("ul", null, heads("+", "plus", file.sections_added), heads("~", "change", file.sections_changed), heads("−", "minus", file.sections_removed)))))] : null,
      diff.added.length + diff.removed.length + diff.changed.length ? null : h("p", { class: "empty" }, "No difference.")];
  }

  async function back(to) {
    const sure = await confirm(`Answer from generation ${to.generation}?`,
      `All users get the answers of ${new Date(to.created_at).toLocaleString()} until the folder is indexed again. No files are changed, and you can return at any time.`,
      `Use generation ${to.generation}`);
    if (!sure) return;
    try {
      await ask("rollback", { collection, generation: to.generation, confirm: true });
      announce(`Generation ${to.generation} is active now.`);
      await load();
      if (compared) compare(...compared);
    } catch (error) {
      replace(banner, problem(error));
    }
  }

  if (since) askSince(since);
  return {
    leave() {
      leaving.abort();
      unlisten();
    },
    keys: { Escape: () => ((location.hash = "#/search"), true) },
  };
}
