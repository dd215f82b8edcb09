// The stored generations of the index: a timeline, the changes between them, and rollback. Rolling
// back asks first, because it changes the answers for every user.

import { age, announce, confirm, h, link, name, number, problem, replace, s, plural } from "/web/dom.js";
import { ask } from "/web/api.js";

const MOST = 200;

export function show(main, params, frame) {
  const leaving = new AbortController();
  let collection = params.get("c") || "";
  let [generations, held] = [[], null];
  let compared = null;

  const banner = h("div", { class: "banner" });
  const line = h("div", { class: "timeline" });
  const difference = h("section", { class: "difference", "aria-label": "What changed", tabindex: "-1" });
  const picker = h("div");
  replace(main, h("div", { class: "history" },
    h("header", { class: "head-line" }, h("h1", null, "History"), picker,
      h("p", { class: "small" }, "Each indexing pass that changed something made a generation. You can go back to any of them at once.")),
    banner, line, difference));
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
    const choice = h("select", { "aria-label": "Collection", on: { change: (event) => { collection = event.target.value; load(); } } },
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
    replace(line, picture(), h("ol", { class: "generations" }, [...generations].reverse().map((generation) => {
      const before = generations[generations.indexOf(generation) - 1];
      const active = generations.find((generation) => generation.active);
      return h("li", { class: generation.active ? "active" : "" },
        h("div", { class: "what" },
          h("h2", null, `Generation ${generation.generation}`, generation.active ? h("span", { class: "tag good" }, "active") : null, generation.pinned ? h("span", { class: "tag" }, "pinned") : null),
          h("p", { class: "small" }, h("time", { title: generation.created_at }, age(generation.created_at)), ` · ${plural(generation.documents, "document")} · ${plural(generation.chunks, "chunk")} · ${generation.model}`)),
        h("p", { class: "delta" },
          h("span", { class: "plus" }, `+${number(generation.added)}`), " ",
          h("span", { class: "change" }, `~${number(generation.changed)}`), " ",
          h("span", { class: "minus" }, `−${number(generation.removed)}`),
          h("span", { class: "unseen" }, ` ${generation.added} added, ${generation.changed} changed, ${generation.removed} removed`)),
        h("div", { class: "actions" },
          before ? h("button", { type: "button", on: { click: () => compare(before, generation) } }, "What changed", which(" in", generation)) : null,
          active && !generation.active ? h("button", { type: "button", on: { click: () => compare(...(generation.generation < active.generation ? [generation, active] : [active, generation])) } }, "Compare with now", which(":", generation)) : null,
          generation.active ? null : h("button", { type: "button", class: "danger", on: { click: () => back(generation) } }, held !== null && generation.generation > held ? "Roll forward…" : "Roll back…", which(" to", generation))));
    })));
  }

  const which = (how, generation) => h("span", { class: "unseen" }, `${how} generation ${generation.generation}`);

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

  async function compare(older, newer) {
    compared = [older, newer];
    try {
      const diff = await ask("diff", { collection, older: older.generation, newer: newer.generation }, leaving.signal);
      const files = (title, kind, list) => list.length ? [h("h3", null, title, " ", h("span", { class: "count" }, number(list.length))),
        h("ul", { class: `changes ${kind}` }, list.slice(0, MOST).map((uri) => h("li", null, kind === "minus" ? name(uri) : h("a", { href: link("read", { c: collection, u: uri }) }, name(uri)))),
          list.length > MOST ? h("li", { class: "small" }, `and ${number(list.length - MOST)} more`) : null)] : null;
      const heads = (sign, kind, paths) => paths.map((path) => h("li", { class: kind }, sign, " ", path.length ? name(path.join(" › ")) : "the beginning"));
      replace(difference, h("h2", null, `From generation ${diff.older} to ${diff.newer}`),
        files("Added", "plus", diff.added), files("Removed", "minus", diff.removed),
        diff.changed.length ? [h("h3", null, "Changed ", h("span", { class: "count" }, number(diff.changed.length))),
          h("ul", { class: "changes" }, diff.changed.slice(0, MOST).map((file) => h("li", null,
            h("a", { href: link("read", { c: collection, u: file.uri }) }, name(file.uri)),
            h("ul", null, heads("+", "plus", file.sections_added), heads("~", "change", file.sections_changed), heads("−", "minus", file.sections_removed)))))] : null,
        diff.added.length + diff.removed.length + diff.changed.length ? null : h("p", { class: "empty" }, "No difference."));
      difference.scrollIntoView({ block: "nearest" });
      difference.focus({ preventScroll: true });
      announce(`${diff.added.length} added, ${diff.removed.length} removed, ${diff.changed.length} changed`);
    } catch (error) {
      if (error.name !== "AbortError") replace(difference, problem(error));
    }
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

  return {
    leave() {
      leaving.abort();
      unlisten();
    },
    keys: { Escape: () => ((location.hash = "#/search"), true) },
  };
}
