// How good the answers are: questions made from the folder itself, or results that `lookfar eval
// --save` kept, which never leave the browser.

import { announce, h, name, number, problem, replace, several, shown } from "/web/dom.js";
import { ask } from "/web/api.js";
import { measured, strip } from "/web/chart.js";

const METRICS = (k) => [["ndcg", `nDCG@${k}`], ["mrr", `MRR@${k}`], ["recall", `recall@${k}`], ["success", "success@1"]];
const MODES = [["hybrid", "both"], ["keyword", "words"], ["vector", "meaning"]];
const MOST = 4;
const NAMES = METRICS(0).map(([metric]) => metric);

let runs = [];

export function show(main, params, frame) {
  const leaving = new AbortController();
  const count = h("input", { id: "eval-count", type: "number", min: 5, max: 200, value: 60 });
  const start = h("button", { type: "button", class: "main", on: { click: measure } }, "Measure");
  const file = h("input", { id: "eval-file", type: "file", accept: ".json", multiple: true, on: { change: open } });
  const body = h("div", { class: "plots" });
  const said = h("div");
  replace(main, h("div", { class: "quality" },
    h("header", { class: "head-line" }, h("h1", null, "Quality"),
      h("p", { class: "small" }, "Questions are made from your own documents, so the right answer is known. They tell ways of searching apart; people's own questions are harder.")),
    h("div", { class: "controls" },
      h("label", { for: "eval-count" }, "Questions"), count, start,
      h("label", { for: "eval-file", class: "later" }, "or open saved results"), file),
    said, body));
  draw();

  async function measure() {
    start.setAttribute("disabled", "");
    runs = [];
    try {
      const many = Math.max(5, Math.min(200, Number(count.value) || 60));
      for (const [mode, label] of MODES) {
        replace(said, h("p", { class: "small", role: "status" }, `Asking ${many} questions by ${label}…`));
        const run = await ask("evaluate", { mode, count: many }, leaving.signal);
        runs.push({ ...run, label });
        draw();
      }
      replace(said);
      announce("Measured.");
    } catch (error) {
      if (error.name !== "AbortError") replace(said, problem(error));
    } finally {
      start.removeAttribute("disabled");
    }
  }

  async function open() {
    const given = [...file.files].slice(0, MOST);
    file.value = ""; // So that the same one can be opened again.
    try {
      for (const each of given) {
        const run = JSON.parse(await each.text());
        const sound = run?.kind === "lookfar eval" && Array.isArray(run.queries)
          && NAMES.every((metric) => ["mean", "low", "high"].every((part) => typeof run.metrics?.[metric]?.[part] === "number"));
        if (!sound) throw new Error(`${each.name} does not hold results of lookfar eval --save.`);
        runs = [...runs, { ...run, label: String(run.label || each.name) }].slice(-MOST);
      }
      replace(said);
      draw();
      announce(several(runs.length, "result"));
    } catch (error) {
      replace(said, problem(error));
    }
  }

  function draw() {
    if (!runs.length) {
      return replace(body, h("p", { class: "empty" }, "Nothing is measured yet. It takes some seconds and changes nothing."));
    }
    const [first] = runs;
    const metrics = METRICS(first.k);
    const worst = first.queries.filter((each) => !each.rank).slice(0, 12);
    const kinds = Object.entries(first.categories || {});
    replace(body,
      h("section", { class: "card" }, h("h2", null, `${several(first.queries.length, "question")}, first ${first.k} answers`),
        h("ul", { class: "key" }, runs.map((run, at) => h("li", null, h("i", { class: `swatch run${at}`, "aria-hidden": "true" }), name(run.label),
          h("span", { class: "small" }, ` ${run.model}, p50 ${run.latency_ms?.p50?.toFixed?.(1) ?? "?"} ms, p95 ${run.latency_ms?.p95?.toFixed?.(1) ?? "?"} ms`)))),
        measured(runs, metrics), h("p", { class: "small" }, "Whiskers are 95 % intervals: where they overlap much, chance may explain the difference.")),
      h("section", { class: "card" }, h("h2", null, h("span", null, `nDCG@${first.k} of each question, by `, name(first.label))), strip(first, "ndcg"),
        kinds.length ? h("table", null, h("caption", { class: "unseen" }, "By kind of question"),
          h("thead", null, h("tr", null, h("th", null, "kind"), h("th", null, "questions"), metrics.map(([, label]) => h("th", null, label)))),
          h("tbody", null, kinds.map(([kind, values]) => h("tr", null, h("th", null, name(kind)), h("td", null, number(values.queries)), metrics.map(([metric]) => h("td", null, Number(values[metric]).toFixed(3))))))) : null),
      worst.length ? h("section", { class: "card" }, h("h2", null, "Not answered"), h("ul", { class: "plain" }, worst.map((each) =>
        h("li", null, shown(String(each.query)))))) : null);
  }

  return { leave: () => leaving.abort(), keys: { Escape: () => ((location.hash = "#/search"), true) } };
}
