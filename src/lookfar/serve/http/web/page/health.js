// How the index is doing, as it happens.

import { age, bytes, h, name, number, replace, s, several, shown } from "/web/dom.js";

export function show(main, params, frame) {
  const body = h("div", { class: "cards" });
  replace(main, h("div", { class: "health" },
    h("header", { class: "head-line" }, h("h1", null, "Health"), h("p", { class: "small" }, "Live: this page follows the index while it works.")), body));
  const unlisten = frame.onState((state) => replace(body, state.collections.map(card)));
  if (!frame.state()) replace(body, h("p", { class: "empty" }, "One moment…"));

  function verdict(each) {
    if (each.failure) return ["bad", each.failure];
    if (each.building_since) return ["busy", `Indexing since ${age(each.building_since)}.`];
    if (!each.indexed) return ["idle", "Not indexed yet: the first search does it."];
    if (each.held !== null) return ["held", `Held at generation ${each.held} since a roll-back.`];
    if (each.failures.length) return ["bad", `${several(each.failures.length, "file")} could not be read.`];
    if (!each.current) return ["held", "Made with other settings than those in force; it is built anew."];
    if (each.watcher && !each.watcher.healthy) return ["held", each.watcher.reason || "Changes are found when somebody searches."];
    if (each.watcher?.queued) return ["busy", `${several(each.watcher.queued, "change")} waiting to be indexed.`];
    return ["good", each.watcher ? "True to the disk, and followed." : "Checked whenever somebody searches."];
  }

  function card(each) {
    const [state, text] = verdict(each);
    const far = each.progress;
    const share = far?.total_files ? far.files / far.total_files : 0;
    const rows = [
      ["Generation", each.generation ? `${each.generation}, made ${age(each.created_at)}` : "none"],
      ["Model", each.dimensions ? `${each.model}, ${each.dimensions} dimensions` : each.model],
      ["Followed", each.watcher ? `${each.watcher.strategy}${each.watcher.last_pass ? `, last pass ${age(each.watcher.last_pass)}` : ""}` : "no"],
      ["On disk", bytes(each.disk_bytes)],
      ["Folder", each.root],
      ["Index", each.index_dir],
      ...(each.damage ? [["Damage", each.damage]] : []),
      ...(each.watcher?.last_error ? [["Last error", each.watcher.last_error]] : []),
    ];
    return h("section", { class: "card" },
      h("h2", null, h("i", { class: `lamp ${state}`, "aria-hidden": "true" }), name(each.collection)),
      h("p", { class: "verdict" }, shown(text)),
      each.building_since ? h("div", { class: "progress", role: "progressbar", "aria-label": `Indexing ${each.collection}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(share * 100) },
        s("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
          s("rect", { class: "track", x: 0, y: 0, width: 100, height: 4 }), s("rect", { class: "run0", x: 0, y: 0, width: (share * 100).toFixed(1), height: 4 })),
        h("p", { class: "small" }, far ? `${number(far.files)} of ${several(far.total_files, "file")}, ${bytes(far.bytes)} of ${bytes(far.total_bytes)}` : "looking at the disk")) : null,
      h("dl", { class: "big" }, [["documents", each.documents], ["sections", each.sections], ["chunks", each.chunks], ["links", each.links]].map(([what, count]) =>
        h("div", null, h("dt", null, what), h("dd", null, number(count))))),
      h("dl", { class: "rows" }, rows.map(([what, value]) => h("div", null, h("dt", null, what), h("dd", null, name(value))))),
      each.failures.length ? [h("h3", null, "Could not be read"), h("ul", { class: "failures" }, each.failures.slice(0, 100).map((one) =>
        h("li", null, name(one.uri), h("p", { class: "small" }, shown(one.message)))))] : null);
  }

  return { leave: unlisten, keys: { Escape: () => ((location.hash = "#/search"), true) } };
}
