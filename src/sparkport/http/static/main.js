// The page: who is logged in, which view is shown, and what to say when the server is not there.

import { ApiError, get, post } from "./api.js";
import { el, show } from "./dom.js";

const views = {
  catalog: () => import("./catalog.js"),
  statements: () => import("./statements.js"),
  sql: () => import("./sql.js"),
};
const content = document.getElementById("content");
let leave = () => {};
let server = null;

export function alert(text) {
  const box = document.getElementById("alert");
  box.textContent = text;
  box.hidden = !text;
}

export function go(path) {
  history.pushState(null, "", path);
  render();
}

// Every view hands its errors here.
export function report(error) {
  if (error.name === "AbortError") return;
  if (error instanceof ApiError && error.code === "UNAUTHENTICATED") {
    logIn(server ? "Your session has ended: the token has expired, was revoked, or you logged out elsewhere. Log in again." : "");
    return;
  }
  alert(error.message);
  if (error.code === "DOWN") setTimeout(revive, 2000);
}

async function revive() {
  try {
    await get("/api/server");
    alert("");
    render();
  } catch (error) {
    report(error);
  }
}

async function render() {
  leave();
  leave = () => {};
  const [, name = "", ...rest] = location.pathname.split("/").map(decodeURIComponent);
  try {
    server = await get("/api/server");
  } catch (error) {
    report(error);
    return;
  }
  alert("");
  document.getElementById("top").hidden = false;
  document.getElementById("who").textContent = server.principal;
  document.getElementById("logout").hidden = !server.needs_token;
  const view = views[name] ? name : "catalog";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view === "sql" ? "SQL" : view[0].toUpperCase() + view.slice(1)} · sparkport`;
  try {
    const module = await views[view]();
    leave = (await module.open(content, rest.filter(Boolean), server)) || (() => {});
  } catch (error) {
    report(error);
  }
}

function logIn(why) {
  leave();
  leave = () => {};
  alert("");
  document.getElementById("top").hidden = true;
  document.title = "Log in · sparkport";
  const token = el("input", { id: "token", type: "password", autocomplete: "current-password", required: true, "aria-describedby": "why" });
  const user = el("input", { id: "user", autocomplete: "username", autocapitalize: "none", spellcheck: "false" });
  const userRow = el("div", { hidden: true }, el("label", { for: "user" }, "User (empty to use a token)"), user);
  const label = el("label", { for: "token" }, "Token");
  const message = el("p", { id: "why", class: "muted", role: "status" }, why);
  const form = el("form", { class: "login card", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await post("/api/login", user.value ? { user: user.value, password: token.value } : { token: token.value });
      render();
    } catch (error) {
      message.textContent = error.code === "UNAUTHENTICATED" && !user.value ? "This token is not valid." : error.message;
      message.className = "error";
      token.select();
    }
  } }, el("h1", {}, "sparkport"), userRow, label, token, message, el("button", { type: "submit" }, "Log in"),
  el("p", { class: "muted" }, "The server prints its token when it starts, or has it in the file of --token-file."));
  show(content, form);
  token.focus();
  get("/api/login").then((ways) => {
    if (!ways.takes_passwords) return;
    userRow.hidden = false;
    label.textContent = "Password or token";
    if (!token.value) user.focus();
  }).catch(report);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || link.target || link.pathname.startsWith("/static")) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
document.getElementById("logout").addEventListener("click", async () => {
  try {
    await post("/api/logout", {});
  } catch (error) {
    report(error);
    return;
  }
  server = null;
  logIn("You are logged out.");
});
window.addEventListener("popstate", render);
render();
