// Asking the server. Where it wants a token, a person is asked for it once; the tab keeps it.

import { byId } from "/web/dom.js";

const KEPT = "lookfar.token";
let token = sessionStorage.getItem(KEPT) || "";
let asking = null;

export class Refused extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
    this.hint = error.hint;
  }
}

async function send(path, options) {
  for (;;) {
    const used = token;
    const headers = { ...options.headers, ...(used ? { authorization: `Bearer ${used}` } : {}) };
    let answer;
    try {
      answer = await fetch(path, { ...options, headers, credentials: "omit", redirect: "error" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, { code: "AWAY", message: "The server does not answer.", hint: "Is lookfar serve still running?" });
    }
    if (answer.ok) return answer;
    const shape = await answer.json().catch(() => null);
    const refused = new Refused(answer.status, shape?.error || { code: "ERROR", message: `The server said ${answer.status}.`, hint: "" });
    if (answer.status !== 401) throw refused;
    if (used === token) await newToken(used ? "That token was not accepted." : "");
  }
}

export async function ask(what, body = {}, signal = undefined) {
  const headers = { "content-type": "application/json" };
  const answer = await send(`/api/${what}`, { method: "POST", headers, body: JSON.stringify(body), signal });
  return answer.json();
}

// Resolves when somebody looks at the page. A browser keeps few connections to one server, for
// all of its tabs together, so one that nobody looks at holds none.
const looked = () => new Promise((resolve) => {
  if (!document.hidden) resolve();
  else document.addEventListener("visibilitychange", () => resolve(looked()), { once: true });
});

// Tell every state of the index, while somebody looks.
export async function follow(tell, away) {
  let stop = new AbortController();
  document.addEventListener("visibilitychange", () => document.hidden && stop.abort());
  window.addEventListener("pagehide", () => stop.abort());
  for (;;) {
    await looked();
    stop = new AbortController();
    try {
      const answer = await send("/api/events?follow=1", { method: "GET", signal: stop.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const data = block.split("\n").find((line) => line.startsWith("data: "));
          if (data) tell(JSON.parse(data.slice(6)));
        }
      }
    } catch (error) {
      if (error.name !== "AbortError") away(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function newToken(why) {
  asking ??= new Promise((resolve) => {
    const [dialog, input] = [byId("token"), byId("token-input")];
    if (why) byId("token-why").textContent = why;
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => {
      token = input.value.trim();
      input.value = "";
      sessionStorage.setItem(KEPT, token);
      asking = null;
      resolve();
    };
    dialog.showModal();
  });
  return asking;
}
