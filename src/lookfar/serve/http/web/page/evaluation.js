// Search quality: measured with questions generated from the folder, or opened from files that
// `lookfar eval --save` wrote. Those files never leave the browser.

import { age, announce, h, name, number, problem, replace, plural, visibleText } from "/web/dom.js";
import { ask } from "/web/api.js";
import { comparison, strip } from "/web/chart.js";

const METRICS = (k) => [["ndcg", `nDCG@${k}`], ["mrr", `MRR@${k}`], ["recall", `recall@${k}`], ["success", "success@1"]];
const MODES = [["hybrid", "both"], ["keyword", "words"], ["vector", "meaning"]];
const MOST = 4;
const NAMES = METRICS(0).map(([metric]) => metric);

const KEY = "lookfar.runs";
const KEPT = 20; // Runs that the browser remembers.
const MOST_QUESTIONS = 200;

// Runs stay in this browser, the latest first; without storage they last as long as the page.
function loadRuns() {
  try {
    const runs = JSON.parse(localStorage.getItem(KEY) || "[]");
    return Array.isArray(runs) ? runs.filter(isValid).slice(0, KEPT) : [];
  } catch {
    return [];
  }
}

function storeRuns() {
  for (let count = kept.length; count >= 0; count -= 1) {
    try {
      return localStorage.setItem(KEY, JSON.stringify(kept.slice(0, count)));
    } catch {
      // It is full: keep fewer.
    }
  }
}

const isValid = (run) => run?.kind === "lookfar eval" && Array.isArray(run.queries)
  && NAMES.every((metric) => ["mean", "low", "high"].every((part) => typeof run.metrics?.[metric]?.[part] === "number"));

let kept = loadRuns();
let shownIds = kept.slice(0, 3).map((run) => run.id);

export function show(main, params, frame) {
  const leaving = new AbortController();
  const count = h("input", { id: "eval-count", type: "number", min: 5, max: 200, value: 60 });
  const start = h("button", { type: "button", class: "main", on: { click: measure } }, "Measure");
  const file = h("input", { id: "eval-file", type: "file", accept: ".json", multiple: true, on: { change: open } });
  const body = h("div", { class: "plots" });
  const message = h("div");
  replace(main, h("div", { class: "quality" },
    h("header", { class: "head-line" }, h("h1", null, "Quality"),
      h("p", { class: "small" }, "The questions are generated from your own documents, so the right answer is known. Use them to compare search modes; real questions are harder.")),
    h("div", { class: "controls" },
      h("label", { for: "eval-count" }, "Questions"), count, start,
      h("label", { for: "eval-file", class: "later" }, "or open saved results"), file),
    message, body));

  async function measure() {
    start.setAttribute("disabled", "");
    shownIds = [];
    try {
      const total = Math.max(5, Math.min(200, Number(count.value) || 60));
      for (const [mode, label] of MODES) {
        replace(message, h("p", { class: "small", role: "status" }, `Asking ${total} questions by ${label}…`));
        const run = await ask("evaluate", { mode, count: total }, leaving.signal);
        keep({ ...run, label });
      }
      replace(message);
      announce("Measurement finished.");
    } catch (error) {
      if (error.name !== "AbortError") replace(message, problem(error));
    } finally {
      start.removeAttribute("disabled");
    }
  }

  async function open() {
    const files = [...file.files].slice(0, MOST);
    file.value = ""; // So that the same file can be opened again.
    try {
      for (const saved of files) {
        const run = JSON.parse(await saved.text());
        if (!isValid(run)) throw new Error(`${saved.name} is not a result file of lookfar eval --save.`);
        keep({ ...run, label: String(run.label || saved.name) });
      }
      replace(message);
      announce(plural(kept.length, "result"));
    } catch (error) {
      replace(message, problem(error));
    }
  }

  function keep(run) {
    const queries = run.queries.slice(0, MOST_QUESTIONS).map(({ query, rank, ndcg }) => ({ query, rank, ndcg }));
    kept = [{ ...run, queries, id: `${Date.now()}-${Math.random()}`, at: new Date().toISOString() }, ...kept].slice(0, KEPT);
    shownIds = [...shownIds, kept[0].id].slice(-MOST);
    storeRuns();
    draw();
  }

  function remove(run) {
    kept = kept.filter((other) => other !== run);
    shownIds = shownIds.filter((id) => id !== run.id);
    storeRuns();
    draw();
    announce("Run deleted.");
  }

  function compareWith(run, on) {
    shownIds = shownIds.filter((id) => id !== run.id);
    if (on) shownIds = [...shownIds, run.id].slice(-MOST);
    draw();
    body.querySelector(`[data-run="${CSS.escape(run.id)}"]`)?.focus();
  }

  const table = () => h("section", { class: "card" }, h("h2", null, "Runs"), h("p", { class: "small" }, `The last ${KEPT} stay in this browser. Up to ${MOST} are compared.`),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Runs" }, h("table", { class: "runs" }, h("thead", null, h("tr", null, ["Compare", "Run", "When", "Questions", "nDCG", "MRR"].map((text) => h("th", null, text)), h("td"))),
      h("tbody", null, kept.map((run) => h("tr", null,
        h("td", null, h("input", { type: "checkbox", "data-run": run.id, checked: shownIds.includes(run.id), "aria-label": `Compare ${run.label}, ${age(run.at)}`, on: { change: (event) => compareWith(run, event.target.checked) } })),
        h("th", null, name(run.label)), h("td", null, age(run.at)), h("td", null, number(run.queries.length)), h("td", null, run.metrics.ndcg.mean.toFixed(3)), h("td", null, run.metrics.mrr.mean.toFixed(3)),
        h("td", null, h("button", { type: "button", on: { click: () => remove(run) } }, "Delete", h("span", { class: "unseen" }, ` ${run.label}, ${age(run.at)}`)))))))));

  function draw() {
    const runs = shownIds.map((id) => kept.find((run) => run.id === id)).filter(Boolean);
    if (kept.length && !runs.length) return replace(body, table());
    if (!runs.length) {
      return replace(body, h("p", { class: "empty" }, "Nothing measured yet. It takes a few seconds and changes nothing."));
    }
    const [first] = runs;
    const metrics = METRICS(first.k);
    const unanswered = first.queries.filter((query) => !query.rank).slice(0, 12);
    const kinds = Object.entries(first.categories || {});
    replace(body,
      h("section", { class: "card" }, h("h2", null, `${plural(first.queries.length, "question")}, first ${first.k} answers`),
        h("ul", { class: "key" }, runs.map((run, at) => h("li", null, h("i", { class: `swatch run${at}`, "aria-hidden": "true" }), name(run.label),
          h("span", { class: "small" }, ` ${run.model}, p50 ${run.latency_ms?.p50?.toFixed?.(1) ?? "?"} ms, p95 ${run.latency_ms?.p95?.toFixed?.(1) ?? "?"} ms`)))),
        comparison(runs, metrics), h("p", { class: "small" }, "Whiskers show 95 % intervals. If they overlap a lot, the difference may be chance.")),
      h("section", { class: "card" }, h("h2", null, h("span", null, `nDCG@${first.k} of each question, by `, name(first.label))), strip(first, "ndcg"),
        kinds.length ? h("table", null, h("caption", { class: "unseen" }, "By kind of question"),
          h("thead", null, h("tr", null, h("th", null, "kind"), h("th", null, "questions"), metrics.map(([, label]) => h("th", null, label)))),
          h("tbody", null, kinds.map(([kind, values]) => h("tr", null, h("th", null, name(kind)), h("td", null, number(values.queries)), metrics.map(([metric]) => h("td", null, Number(values[metric]).toFixed(3))))))) : null),
      table(),
      unanswered.length ? h("section", { class: "card" }, h("h2", null, "Not answered"), h("ul", { class: "plain" }, unanswered.map((query) =>
        h("li", null, visibleText(String(query.query)))))) : null);
  }

  draw();
  return { leave: () => leaving.abort(), keys: { Escape: () => ((location.hash = "#/search"), true) } };
}
