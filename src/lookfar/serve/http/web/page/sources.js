// Sources from elsewhere: what was fetched, from where and when; add, update, pin and remove them.

import { ask } from "/web/api.js";
import { age, announce, bytes, confirm, h, name, number, plural, problem, replace, visibleText } from "/web/dom.js";

const KINDS = { site: "web site", repository: "repository", archive: "archive", folder: "folder elsewhere", package: "package", pack: "pack" };

export function show(main, params, frame) {
  const leaving = new AbortController();
  const list = h("div", { class: "sources-list" });
  const waiting = h("div");
  const progress = h("div", { class: "fetching", role: "status" });
  const trouble = h("div");
  const origin = h("input", { id: "source-origin", type: "text", required: true });
  const label = h("input", { id: "source-name", type: "text", placeholder: "made from the address" });
  const onlyPage = h("input", { id: "source-page", type: "checkbox" });
  const form = h("form", { class: "add-source", on: { submit: (event) => { event.preventDefault(); add(); } } },
    h("label", { for: "source-origin" }, "Address of a site or repository", origin),
    h("label", { for: "source-name" }, "Name", label),
    h("label", { class: "check", for: "source-page" }, onlyPage, "only this page"),
    h("button", { class: "main" }, "Add…"));
  replace(main, h("div", { class: "sources" },
    h("header", { class: "head-line" }, h("h1", null, "Sources"),
      h("p", { class: "small" }, "Fetched once, then searched without the network. Folders and archives are added on the command line: lookfar add PATH.")),
    form, trouble, progress, waiting, list));
  let job = "";
  const unlisten = frame.onState((state) => {
    const signature = JSON.stringify(state.source_job);
    if (signature === job) return;
    job = signature;
    drawJob(state.source_job);
  });
  load();

  async function load() {
    try {
      draw(await ask("sources", {}, leaving.signal));
    } catch (error) {
      if (error.name !== "AbortError") replace(list, problem(error));
    }
  }

  function draw(answer) {
    form.hidden = !answer.may_change;
    if (answer.job) drawJob(answer.job, true);
    const missing = answer.named.filter((entry) => entry.state !== "added");
    replace(waiting, missing.length ? [h("h2", null, "Named by lookfar.toml, not fetched yet"),
      h("ul", { class: "source-rows named" }, missing.map((entry) => h("li", null,
        h("div", { class: "what" }, h("h3", null, name(entry.name), entry.state === "changed" ? h("span", { class: "tag" }, "changed") : null), h("p", { class: "small" }, name(entry.origin))),
        answer.may_change ? h("div", { class: "actions" }, h("button", { type: "button", on: { click: () => fetchNamed(entry) } }, "Fetch…", h("span", { class: "unseen" }, ` ${entry.name}`))) : null)))] : null);
    const packages = answer.sources.filter((source) => source.kind === "package");
    const others = answer.sources.filter((source) => source.kind !== "package");
    const rows = (sources) => h("ul", { class: "source-rows" }, sources.map((source) => row(source, answer.may_change)));
    replace(list,
      others.length ? [h("h2", null, "Added ", h("span", { class: "count" }, number(others.length)),
        answer.may_change ? h("button", { type: "button", on: { click: () => update([]) } }, "Update all") : null), rows(others)]
        : h("p", { class: "empty" }, "No sources were added yet."),
      packages.length ? h("details", null, h("summary", null, plural(packages.length, "package"), " of your projects"), rows(packages)) : null);
  }

  function row(source, mayChange) {
    const act = (text, label, run, kind = "") => h("button", { type: "button", class: kind || undefined, on: { click: run } }, text, h("span", { class: "unseen" }, ` ${label}`));
    const isPackage = source.kind === "package";
    return h("li", { "data-name": source.name },
      h("div", { class: "what" },
        h("h3", null, name(source.name), source.state ? h("span", { class: source.state.startsWith("stale") ? "tag warn" : "tag" }, visibleText(source.state)) : null),
        h("p", { class: "small" }, KINDS[source.kind] || source.kind, ", from ", name(source.origin), source.version ? [", ", name(source.version.slice(0, 12))] : null),
        h("p", { class: "small" }, `${plural(source.files, "file")}, ${bytes(source.bytes)}`, source.fetched ? [", fetched ", h("time", { title: source.fetched }, age(source.fetched))] : null)),
      mayChange ? h("div", { class: "actions" },
        isPackage || source.pinned ? null : act("Update", source.name, () => update([source.name])),
        isPackage ? null : act(source.pinned ? "Unpin" : "Pin", source.name, () => pin(source)),
        act("Remove…", source.name, () => remove(source), "danger")) : null);
  }

  // --- the running fetch ----------------------------------------------------------------------------

  function drawJob(now, again = false) {
    if (!now) return replace(progress);
    if (now.state === "running") {
      const far = now.total ? `${number(now.done)} of ${number(now.total)}` : now.done ? plural(now.done, "page") : "starting";
      replace(progress, h("p", { class: "note-line" }, "Fetching ", name(now.name), `: ${far} `,
        h("button", { type: "button", on: { click: stop } }, "Stop")));
    } else if (now.state === "failed") {
      replace(progress, problem(now));
    } else {
      const counts = [[now.added, "added"], [now.changed, "changed"], [now.removed, "removed"]].filter(([count]) => count);
      replace(progress, h("div", { class: "note-line" }, name(now.name), ": ", counts.map(([count, what]) => `${number(count)} ${what}`).join(", ") || "no changes",
        now.notes.length ? h("ul", null, now.notes.map((note) => h("li", { class: "small" }, visibleText(note)))) : null));
    }
    if (now.state !== "running" && !again) load();
  }

  async function run(route, body, done) {
    replace(trouble);
    try {
      const answer = await ask(route, body, leaving.signal);
      if (answer.job) drawJob(answer.job, answer.job.state !== "running");
      if (done) announce(done);
      return true;
    } catch (error) {
      if (error.name !== "AbortError") replace(trouble, problem(error));
      return false;
    }
  }

  async function add() {
    const address = origin.value.trim();
    const sure = await confirm(`Fetch ${address}?`,
      onlyPage.checked ? "This page is requested over the network and stored on the machine of the server." : "Pages below this address are requested over the network and stored on the machine of the server. robots.txt and your limits are respected.", "Fetch");
    if (!sure) return;
    if (await run("source_add", { origin: address, name: label.value.trim(), only_page: onlyPage.checked, confirm: true }, "Fetching.")) form.reset();
  }

  async function fetchNamed(entry) {
    const sure = await confirm(`Fetch ${entry.name}?`, `The project's lookfar.toml names ${entry.origin}. It is requested over the network and stored on the machine of the server.${entry.previous ? ` It replaces ${entry.previous}.` : ""}`, "Fetch");
    if (sure) await run("source_add", { named: entry.name, origin: entry.origin, confirm: true }, "Fetching.");
  }

  const update = (names) => run("source_update", { names }, "Updating.");
  const stop = () => run("source_stop", {}, "Stopped.");

  async function pin(source) {
    if (await run("source_pin", { name: source.name, pinned: !source.pinned }, source.pinned ? "Unpinned." : "Pinned.")) load();
  }

  async function remove(source) {
    const sure = await confirm(`Remove ${source.name}?`, source.kind === "folder" ? "Its index is deleted. The folder itself is not touched." : `What was fetched (${plural(source.files, "file")}) and its index are deleted.`, "Remove");
    if (sure && await run("source_remove", { name: source.name, confirm: true }, "Removed.")) load();
  }

  return { leave: () => { leaving.abort(); unlisten(); }, keys: { Escape: () => ((location.hash = "#/search"), true) } };
}
