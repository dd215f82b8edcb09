// Small SVG charts, each with a text alternative.

import { h, s, visibleText } from "/web/dom.js";

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
const nonZero = (parts) => parts.filter((part) => part.value);

// A bar with the parts of a score, relative to the best score of the list.
export function spark(score, parts, best) {
  const width = 88;
  const plus = nonZero(parts).filter((part) => part.value > 0);
  const sum = plus.reduce((total, part) => total + part.value, 0) || 1;
  const long = Math.max(2, Math.min(1, score / (best || 1)) * width);
  let x = 0;
  const words = nonZero(parts).map((part) => `${part.stage} ${signed(part.value)}`).join(", ");
  return s("svg", { class: "spark", viewBox: `0 0 ${width} 6`, width, height: 6, role: "img", "aria-label": `Score ${score.toFixed(3)}: ${words}` },
    s("rect", { class: "track", x: 0, y: 0, width, height: 6, rx: 3 }),
    plus.map((part, at) => {
      const wide = (part.value / sum) * long;
      x += wide;
      return s("rect", { class: `tone${at % 4}`, x: (x - wide).toFixed(2), y: 0, width: Math.max(wide - 0.6, 0.6).toFixed(2), height: 6 });
    }));
}

// A list of the steps of a score, each with its bar, value and reason.
export function explanation(parts) {
  const steps = nonZero(parts);
  const most = Math.max(...steps.map((part) => Math.abs(part.value)), 1e-9);
  const below = steps.some((part) => part.value < 0);
  const [zero, scale] = below ? [50, 48] : [0, 98];
  const rows = steps.map((part) => {
    const long = (Math.abs(part.value) / most) * scale;
    return h("li", null,
      h("span", { class: "stage" }, part.stage),
      s("svg", { class: "step", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: "track", x: 0, y: 3.5, width: 100, height: 1 }),
        s("rect", { class: part.value < 0 ? "minus" : "plus", x: part.value < 0 ? zero - long : zero, y: 0, width: Math.max(long, 0.5), height: 8 })),
      h("span", { class: "value" }, signed(part.value)),
      part.note ? h("span", { class: "note" }, visibleText(part.note)) : null);
  });
  const question = parts.find((part) => part.stage === "question");
  return h("div", null,
    h("ol", { class: "story" }, rows),
    question?.note ? h("p", { class: "small" }, "Matched as: ", visibleText(question.note)) : null);
}

// Compare runs: a bar for each metric with its interval.
export function comparison(runs, metrics) {
  const [left, right, bar, gap] = [92, 64, 14, 3];
  const wide = 720;
  const scale = wide - left - right;
  const parts = [];
  let y = 8;
  for (const [metric, label] of metrics) {
    parts.push(s("text", { x: left - 12, y: y + (runs.length * (bar + gap)) / 2 + 3, "text-anchor": "end" }, label));
    runs.forEach((run, at) => {
      const { mean, low, high } = run.metrics[metric];
      const middle = y + bar / 2;
      parts.push(
        s("rect", { class: "track", x: left, y, width: scale, height: bar, rx: 2 }),
        s("rect", { class: `run${at % 4}`, x: left, y, width: Math.max(mean * scale, 1), height: bar, rx: 2 }),
        s("path", { class: "whisker", d: `M${left + low * scale} ${middle}H${left + high * scale}M${left + low * scale} ${middle - 4}v8M${left + high * scale} ${middle - 4}v8` }),
        s("text", { class: "figure", x: left + scale + 10, y: middle + 4 }, mean.toFixed(3)));
      y += bar + gap;
    });
    y += 12;
  }
  const words = runs.map((run) => `${run.label}: ${metrics.map(([m, l]) => `${l} ${run.metrics[m].mean.toFixed(3)}`).join(", ")}`).join("; ");
  return s("svg", { class: "plot", viewBox: `0 0 ${wide} ${y}`, role: "img", "aria-label": words }, parts);
}

// A bar for every question of a run, best first.
export function strip(run, metric) {
  const values = run.queries.map((query) => query[metric]).sort((a, b) => b - a);
  const [wide, high] = [720, 72];
  const step = wide / Math.max(values.length, 1);
  return s("svg", { class: "plot strip", viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${values.filter((v) => v === 0).length} of ${values.length} questions were not answered` },
    s("path", { class: "grid", d: `M0 .5H${wide}M0 ${high / 2}H${wide}M0 ${high - 0.5}H${wide}` }),
    values.map((value, at) => s("rect", { class: "run0", x: (at * step).toFixed(2), y: (high - value * high).toFixed(2), width: Math.max(step - 0.8, 0.6).toFixed(2), height: (value * high).toFixed(2) })));
}
