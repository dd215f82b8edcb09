// The live status of the index.

import { ask } from "/web/api.js";
import { age, bytes, h, name, number, problem, replace, s, plural, visibleText } from "/web/dom.js";

const unfolded = new Set(); // Reasons whose files are shown, by collection.

export function show(main, params, frame) {
  const leaving = new AbortController();
  let drawn = "";
  const body = h("div", { class: "cards" });
  replace(main, h("div", { class: "health" },
    h("header", { class: "head-line" }, h("h1", null, "Health"), h("p", { class: "small" }, "Live: updates while the index works.")), body));
  const unlisten = frame.onState((state) => {
    const signature = JSON.stringify(state.collections);
    if (signature === drawn) return;
    drawn = signature;
    replace(body, state.collections.map(card));
  });
  if (!frame.state()) replace(body, h("p", { class: "empty" }, "Loading…"));

  function verdict(collection) {
    if (collection.failure) return ["bad", collection.failure];
    if (collection.building_since) return ["busy", `Indexing, started ${age(collection.building_since)}.`];
    if (!collection.indexed) return ["idle", "Not indexed yet. The first search indexes it."];
    if (collection.held !== null) return ["held", `Rolled back to generation ${collection.held}.`];
    if (collection.failures.length) return ["bad", `${plural(collection.failures.length, "file")} could not be read.`];
    if (!collection.current) return ["held", "The settings have changed, so the index is being rebuilt."];
    if (collection.watcher && !collection.watcher.healthy) return ["held", collection.watcher.reason || "Changes are detected when someone searches."];
    if (collection.watcher?.queued) return ["busy", `${plural(collection.watcher.queued, "change")} waiting to be indexed.`];
    return ["good", collection.watcher ? "Up to date, and watched for changes." : "Checked for changes with every search."];
  }

  function second(quality) {
    if (quality.failure && !quality.total) return quality.failure;
    const made = `${quality.model}: ${number(quality.embedded)} of ${plural(quality.total, "passage")}`;
    const doing = quality.failure || (quality.paused && `paused: ${quality.paused}`) || (quality.working && (quality.per_second ? `${quality.per_second} per second` : "starting"));
    return doing ? `${made}; ${doing}` : made;
  }

  function card(collection) {
    const [state, text] = verdict(collection);
    const { progress } = collection;
    const share = progress?.total_files ? progress.files / progress.total_files : 0;
    const rows = [
      ["Generation", collection.generation ? `${collection.generation}, made ${age(collection.created_at)}` : "none"],
      ["Model", collection.dimensions ? `${collection.model}, ${collection.dimensions} dimensions` : collection.model],
      ...(collection.quality ? [["Second model", second(collection.quality)]] : []),
      ["File watcher", collection.watcher ? `${collection.watcher.strategy}${collection.watcher.last_pass ? `, last pass ${age(collection.watcher.last_pass)}` : ""}` : "off"],
      ["On disk", bytes(collection.disk_bytes)],
      ["Folder", collection.root],
      ["Index", collection.index_dir],
      ...(collection.damage ? [["Damage", collection.damage]] : []),
      ...(collection.watcher?.last_error ? [["Last error", collection.watcher.last_error]] : []),
    ];
    return h("section", { class: "card" },
      h("h2", null, h("i", { class: `lamp ${state}`, "aria-hidden": "true" }), name(collection.collection)),
      h("p", { class: "verdict" }, visibleText(text)),
      collection.building_since ? h("div", { class: "progress", role: "progressbar", "aria-label": `Indexing ${collection.collection}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(share * 100) },
        s("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
          s("rect", { class: "track", x: 0, y: 0, width: 100, height: 4 }), s("rect", { class: "run0", x: 0, y: 0, width: (share * 100).toFixed(1), height: 4 })),
        h("p", { class: "small" }, progress ? `${number(progress.files)} of ${plural(progress.total_files, "file")}, ${bytes(progress.bytes)} of ${bytes(progress.total_bytes)}` : "scanning the disk")) : null,
      h("dl", { class: "big" }, [["documents", collection.documents], ["sections", collection.sections], ["chunks", collection.chunks], ["links", collection.links]].map(([label, count]) =>
        h("div", null, h("dt", null, label), h("dd", null, number(count))))),
      h("dl", { class: "rows" }, rows.map(([label, value]) => h("div", null, h("dt", null, label), h("dd", null, name(value))))),
      collection.failures.length ? [h("h3", null, "Unreadable files"), h("ul", { class: "failures" }, collection.failures.slice(0, 100).map((failure) =>
        h("li", null, name(failure.uri), h("p", { class: "small" }, visibleText(failure.message)))))] : null,
      collection.skipped_groups.length ? [h("h3", null, "Skipped files"), h("div", { class: "skipped" }, collection.skipped_groups.map((group) => skipped(collection.collection, group)))] : null);
  }

  // One reason with its files: a few examples, and all of them once it is unfolded.
  function skipped(collection, group) {
    const key = `${collection}\n${group.reason}`;
    const files = h("ul", { class: "failures" });
    const rest = h("div");
    const examples = group.chosen || !group.examples.length ? null : h("p", { class: "small" }, name(group.examples.join(", ")), group.count > group.examples.length ? ", …" : "");
    const details = h("details", { open: unfolded.has(key), on: { toggle: () => {
      if (details.open) unfolded.add(key);
      else unfolded.delete(key);
      if (details.open && !files.firstChild) load();
    } } }, h("summary", null, `${number(group.count)}: ${group.label}`, examples), files, rest);
    if (unfolded.has(key)) load();

    async function load() {
      const offset = files.childElementCount;
      try {
        const answer = await ask("skipped", { collection, reason: group.reason, offset }, leaving.signal);
        examples?.remove();
        files.append(...answer.files.map((file) => h("li", null, name(file.uri), file.detail ? h("span", { class: "small" }, " ", visibleText(file.detail)) : null)));
        const left = answer.total - offset - answer.files.length;
        replace(rest, left > 0 ? h("button", { type: "button", on: { click: load } }, `Show more (${number(left)} left)`) : null);
      } catch (error) {
        if (error.name !== "AbortError") replace(rest, problem(error));
      }
    }
    return details;
  }

  return { leave: () => { leaving.abort(); unlisten(); }, keys: { Escape: () => ((location.hash = "#/search"), true) } };
}
