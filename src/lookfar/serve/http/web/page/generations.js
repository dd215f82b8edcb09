// Every state of the index that is kept: a timeline, what changed from one to the next, and the
// way back. Going back asks first, since everybody who searches gets the older answers then.

import { age, announce, confirmed, h, link, name, number, problem, replace, s, several } from "/web/dom.js";
import { ask } from "/web/api.js";

const MOST = 200;

export function show(main, params, frame) {
  const leaving = new AbortController();
  let collection = params.get("c") || "";
  let [kept, held] = [[], null];
  let compared = null;

  const banner = h("div", { class: "banner" });
  const line = h("div", { class: "timeline" });
  const difference = h("section", { class: "difference", "aria-label": "What changed", tabindex: "-1" });
  const picker = h("div");
  replace(main, h("div", { class: "history" },
    h("header", { class: "head-line" }, h("h1", null, "History"), picker,
      h("p", { class: "small" }, "Each indexing that changed something made a generation. Any of them can answer again, at once.")),
    banner, line, difference));
  let seen = null;
  const unlisten = frame.onState((state) => {
    names(state.collections.map((each) => each.collection));
    const now = state.collections.find((each) => each.collection === collection) || state.collections[0];
    const mark = JSON.stringify([now?.generation, now?.generations, now?.held]);
    if (mark !== seen) load();
    seen = mark;
  });

  function names(all) {
    if (all.length < 2 || picker.firstChild) return;
    const choice = h("select", { "aria-label": "Collection", on: { change: (event) => { collection = event.target.value; load(); } } },
      all.map((each) => h("option", { value: each }, each)));
    choice.value = collection || all[0];
    replace(picker, choice);
  }

  async function load() {
    try {
      const found = await ask("generations", { collection }, leaving.signal);
      collection = found.collection;
      [kept, held] = [found.snapshots, found.held];
      draw();
    } catch (error) {
      if (error.name !== "AbortError") replace(line, problem(error));
    }
  }

  function draw() {
    const newest = kept.at(-1);
    replace(banner, held === null ? null : h("div", { class: "note-line warn" },
      `Held at generation ${held} since a roll-back, whatever the disk says. `,
      newest && newest.generation !== held ? h("button", { type: "button", on: { click: () => back(newest) } }, "Return to the newest") : null));
    if (!kept.length) return replace(line, h("p", { class: "empty" }, "Nothing is indexed yet."));
    replace(line, picture(), h("ol", { class: "generations" }, [...kept].reverse().map((each) => {
      const before = kept[kept.indexOf(each) - 1];
      const active = kept.find((one) => one.active);
      return h("li", { class: each.active ? "active" : "" },
        h("div", { class: "what" },
          h("h2", null, `Generation ${each.generation}`, each.active ? h("span", { class: "tag good" }, "answers now") : null, each.pinned ? h("span", { class: "tag" }, "pinned") : null),
          h("p", { class: "small" }, h("time", { title: each.created_at }, age(each.created_at)), ` · ${several(each.documents, "document")} · ${several(each.chunks, "chunk")} · ${each.model}`)),
        h("p", { class: "delta" },
          h("span", { class: "plus" }, `+${number(each.added)}`), " ",
          h("span", { class: "change" }, `~${number(each.changed)}`), " ",
          h("span", { class: "minus" }, `−${number(each.removed)}`),
          h("span", { class: "unseen" }, ` ${each.added} added, ${each.changed} changed, ${each.removed} removed`)),
        h("div", { class: "actions" },
          before ? h("button", { type: "button", on: { click: () => compare(before, each) } }, "What changed", which(" in", each)) : null,
          active && !each.active ? h("button", { type: "button", on: { click: () => compare(...(each.generation < active.generation ? [each, active] : [active, each])) } }, "Compare with now", which(":", each)) : null,
          each.active ? null : h("button", { type: "button", class: "danger", on: { click: () => back(each) } }, held !== null && each.generation > held ? "Roll forward…" : "Roll back…", which(" to", each))));
    })));
  }

  const which = (how, each) => h("span", { class: "unseen" }, `${how} generation ${each.generation}`);

  // Bars of what each brought, in the order of time.
  function picture() {
    const [wide, high] = [720, 64];
    const step = Math.min(48, wide / kept.length);
    const most = Math.max(...kept.map((each) => Math.log1p(each.added + each.changed + each.removed)), 1);
    return s("svg", { class: "plot pulse-line", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${several(kept.length, "generation")}, oldest first` },
      s("path", { class: "grid", d: `M0 ${high - 0.5}H${wide}` }),
      kept.map((each, at) => {
        const sum = each.added + each.changed + each.removed || 1;
        let y = high - 2;
        return ["removed", "changed", "added"].map((kind) => {
          const long = ((Math.log1p(sum) / most) * (high - 8) * each[kind]) / sum;
          y -= long;
          return s("rect", { class: `${kind}${each.active ? " now" : ""}`, x: (at * step + 2).toFixed(1), y: y.toFixed(1), width: Math.max(step - 6, 2).toFixed(1), height: long.toFixed(1), rx: 1 });
        });
      }));
  }

  async function compare(older, newer) {
    compared = [older, newer];
    try {
      const found = await ask("diff", { collection, older: older.generation, newer: newer.generation }, leaving.signal);
      const files = (title, kind, list) => list.length ? [h("h3", null, title, " ", h("span", { class: "count" }, number(list.length))),
        h("ul", { class: `changes ${kind}` }, list.slice(0, MOST).map((uri) => h("li", null, kind === "minus" ? name(uri) : h("a", { href: link("read", { c: collection, u: uri }) }, name(uri)))),
          list.length > MOST ? h("li", { class: "small" }, `and ${number(list.length - MOST)} more`) : null)] : null;
      const heads = (sign, kind, paths) => paths.map((each) => h("li", { class: kind }, sign, " ", each.length ? name(each.join(" › ")) : "the beginning"));
      replace(difference, h("h2", null, `From generation ${found.older} to ${found.newer}`),
        files("Added", "plus", found.added), files("Removed", "minus", found.removed),
        found.changed.length ? [h("h3", null, "Changed ", h("span", { class: "count" }, number(found.changed.length))),
          h("ul", { class: "changes" }, found.changed.slice(0, MOST).map((each) => h("li", null,
            h("a", { href: link("read", { c: collection, u: each.uri }) }, name(each.uri)),
            h("ul", null, heads("+", "plus", each.sections_added), heads("~", "change", each.sections_changed), heads("−", "minus", each.sections_removed)))))] : null,
        found.added.length + found.removed.length + found.changed.length ? null : h("p", { class: "empty" }, "No difference."));
      difference.scrollIntoView({ block: "nearest" });
      difference.focus({ preventScroll: true });
      announce(`${found.added.length} added, ${found.removed.length} removed, ${found.changed.length} changed`);
    } catch (error) {
      if (error.name !== "AbortError") replace(difference, problem(error));
    }
  }

  async function back(to) {
    const sure = await confirmed(`Answer from generation ${to.generation}?`,
      `Everybody who searches gets the answers of ${new Date(to.created_at).toLocaleString()} until the folder is indexed again. No file is touched, and you can come back.`,
      `Use generation ${to.generation}`);
    if (!sure) return;
    try {
      await ask("rollback", { collection, generation: to.generation, confirm: true });
      announce(`Generation ${to.generation} answers now.`);
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
