// What a document said in an earlier generation, and what changed since then.

import { age, announce, h, link, loadStyles, name, plural, problem, replace, visibleText } from "/web/dom.js";
import { ask } from "/web/api.js";

const CONTEXT = { "+": ["added", "Added"], "-": ["removed", "Removed"], " ": ["same", ""] };

export function show(main, params, frame) {
  const leaving = new AbortController();
  let [collection, uri] = [params.get("c") || "", params.get("u") || ""];
  let [generation, shown, page] = [Number(params.get("g")) || 0, params.get("show") || "changes", null];
  const versions = h("nav", { class: "versions", "aria-label": "Versions" });
  const sheet = h("article", { class: "sheet", "aria-label": "Earlier version", tabindex: "-1" }, h("p", { class: "empty" }, "Loading…"));
  replace(main, h("div", { class: "past" }, versions, sheet));
  const reading = () => link("read", { c: collection, u: uri });
  load();

  async function load() {
    try {
      const body = { collection, uri, generation, when: generation ? "" : params.get("when") || "" };
      [page] = await Promise.all([ask("earlier", body, leaving.signal), loadStyles("/web/read.css")]);
      ({ collection, generation } = page);
      frame.title(`${page.title || uri}, earlier`);
      draw();
    } catch (error) {
      if (error.name !== "AbortError") replace(sheet, h("h1", null, "Earlier versions"), problem(error));
    }
  }

  const date = (version) => h("time", { title: version.created_at }, new Date(version.created_at).toLocaleString("en", { dateStyle: "medium", timeStyle: "short" }));
  const isShown = (version) => version.oldest <= generation && generation <= version.newest;

  function choose(next) {
    generation = next.generation ?? generation;
    shown = next.shown ?? shown;
    history.replaceState(null, "", link("earlier", { c: collection, u: uri, g: generation, show: shown }));
    if (next.generation) load();
    else draw();
  }

  function describeKept() {
    const { days, generations } = page.retained;
    return ["No earlier text of this document is kept; the index keeps texts since ", date({ created_at: page.kept_since }),
      days ? `, for ${plural(days, "day")} (index.retain_days).` : `, of the last ${plural(generations, "generation")} (index.retain_days is 0).`];
  }

  function draw() {
    const version = page.versions.find(isShown);
    const newest = page.versions.at(-1);
    replace(versions, h("h2", null, "Versions"), h("ol", null, [...page.versions].reverse().map((item) => h("li", null,
      h("button", { type: "button", "aria-current": isShown(item) ? "true" : undefined, on: { click: () => choose({ generation: item.newest }) } },
        date(item), h("span", { class: "small" }, item.active ? "as it is indexed now" : age(item.created_at)))))),
      page.versions.length > 1 ? null : h("p", { class: "small" }, describeKept()),
      h("p", { class: "small" }, h("a", { href: link("generations", { c: collection }) }, "All changes of the folder")));
    const tab = (value, label) => h("button", { type: "button", "aria-pressed": String(shown === value), on: { click: () => choose({ shown: value }) } }, label);
    replace(sheet, h("header", null,
      h("p", { class: "crumbs" }, h("a", { href: reading() }, "‹ Read it now"), " ", name(page.collection), " / ", name(page.uri)),
      h("h1", null, name(page.title || uri.split("/").pop())),
      h("p", { class: "facts" }, version.active ? "This is the text as it is indexed now." : h("span", null, "As it was indexed ", date(version), `, ${age(version.created_at)}${newest.active ? "" : "; the document was removed since"}`)),
      page.truncated ? h("p", { class: "note-line" }, "The document is very long; only its beginning is compared.") : null,
      page.flags.length ? h("p", { class: "note-line warn" }, "It contains characters that reorder or hide text. Their code points are shown.") : null,
      h("div", { class: "actions", role: "group", "aria-label": "Show" }, tab("changes", "What changed since"), tab("text", "The text then"))),
      shown === "text" ? h("div", { class: "text mono", tabindex: "0", role: "region", "aria-label": "The text then" }, lines(page.text).map((line, at) => h("div", { class: "ln", "data-n": at + 1 }, line ? visibleText(line) : h("br"))))
        : difference(page.diff, version));
    announce(`${page.title || uri}, ${version.active ? "now" : `as it was ${age(version.created_at)}`}`);
  }

  const lines = (text) => (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");

  // A unified diff: lines that are only in the old text, only in the new one, or in both.
  function difference(diff, version) {
    if (version.active) return h("p", { class: "empty" }, page.versions.length > 1 ? "Choose an earlier version to compare." : "There is nothing to compare it with.");
    if (!diff) return h("p", { class: "empty" }, "No difference: the same text was there before.");
    const rows = [];
    let [added, removed, number] = [0, 0, 0];
    for (const line of diff.split("\n").slice(2, -1)) {
      const hunk = /^@@ -\d+(?:,\d+)? \+(\d+)/.exec(line);
      if (hunk) {
        number = Number(hunk[1]);
        rows.push(h("p", { class: "hunk" }, `from line ${number} of the text now`));
        continue;
      }
      const [kind, label] = CONTEXT[line[0]] || CONTEXT[" "];
      if (line[0] === "+") added += 1;
      if (line[0] === "-") removed += 1;
      rows.push(h("div", { class: `ln ${kind}`, "data-sign": line[0] === "-" ? "−" : line[0].trim() }, label ? h("span", { class: "unseen" }, `${label}: `) : null, visibleText(line.slice(1)) , line.length > 1 ? null : h("br")));
    }
    return [h("p", { class: "small key" }, h("span", { class: "delta" }, h("span", { class: "plus" }, `+${plural(added, "line")} now`), " ", h("span", { class: "minus" }, `−${plural(removed, "line")} then`))),
      h("div", { class: "text mono diff", tabindex: "0", role: "region", "aria-label": "Differences" }, rows)];
  }

  return {
    leave: () => leaving.abort(),
    keys: { Escape: () => ((location.hash = reading()), true) },
  };
}
