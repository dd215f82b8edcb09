// Requests to the server. If it requires a token, the user enters it once per tab.

import { byId } from "/web/dom.js";

const TOKEN_KEY = "lookfar.token";
let token = sessionStorage.getItem(TOKEN_KEY) || "";
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
      throw new Refused(0, { code: "AWAY", message: "The server does not respond.", hint: "Is lookfar serve still running?" });
    }
    if (answer.ok) return answer;
    const shape = await answer.json().catch(() => null);
    const refused = new Refused(answer.status, shape?.error || { code: "ERROR", message: `The server responded with status ${answer.status}.`, hint: "" });
    if (answer.status !== 401) throw refused;
    if (used === token) await requestToken(used ? "That token was not accepted." : "");
  }
}

function post(route, body, signal) {
  const headers = { "content-type": "application/json" };
  return send(`/api/${route}`, { method: "POST", headers, body: JSON.stringify(body), signal });
}

export const ask = async (route, body = {}, signal = undefined) => (await post(route, body, signal)).json();
export const askBlob = async (route, body, signal) => (await post(route, body, signal)).blob();

// Resolves when the page is visible. A browser allows few connections to one server over all of
// its tabs, so a hidden tab closes its own.
const visible = () => new Promise((resolve) => {
  if (!document.hidden) resolve();
  else document.addEventListener("visibilitychange", () => resolve(visible()), { once: true });
});

// Report every state of the index while the page is visible.
export async function follow(onState, onError) {
  let stop = new AbortController();
  document.addEventListener("visibilitychange", () => document.hidden && stop.abort());
  window.addEventListener("pagehide", () => stop.abort());
  for (;;) {
    await visible();
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
          if (data) onState(JSON.parse(data.slice(6)));
        }
      }
    } catch (error) {
      if (error.name !== "AbortError") onError(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function requestToken(reason) {
  asking ??= new Promise((resolve) => {
    const [dialog, input] = [byId("token"), byId("token-input")];
    if (reason) byId("token-why").textContent = reason;
    dialog.oncancel = (event) => event.preventDefault();
    dialog.onclose = () => {
      token = input.value.trim();
      input.value = "";
      sessionStorage.setItem(TOKEN_KEY, token);
      asking = null;
      resolve();
    };
    dialog.showModal();
  });
  return asking;
}
