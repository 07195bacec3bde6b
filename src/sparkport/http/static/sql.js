// An editor for SQL, its result as a table or a chart, and what was run before.

import { get, lines, post } from "./api.js";
import { Completion } from "./completion.js";
import { announce, count, el, seconds, show } from "./dom.js";
import { Grid } from "./grid.js";
import { report } from "./main.js";
import { chart } from "./plot.js";

const STORE = "sparkport.history";
const MAX_BARS = 500;

export async function open(content, _, server) {
  const given = new URLSearchParams(location.search).get("q");
  const editor = el("textarea", { id: "editor", rows: 8, spellcheck: "false", autocapitalize: "off", "aria-label": "SQL", placeholder: "SELECT …   Ctrl+Enter runs it" });
  editor.value = given ?? remembered()[0]?.sql ?? "";
  const run = el("button", { type: "button", id: "run" }, "Run");
  const stop = el("button", { type: "button", class: "quiet", disabled: true }, "Cancel");
  const status = el("span", { class: "muted", role: "status" });
  const database = el("select", { "aria-label": "Database" });
  const result = el("section", { "aria-label": "Result" });
  const past = el("section", { "aria-label": "History" });
  const error = el("div", { class: "error", role: "alert" });
  const box = el("div", { class: "editor" }, editor);
  show(content, el("h1", {}, "SQL"), box, el("div", { class: "row" }, run, stop, database, status), error, result, past);
  const state = { editor, run, stop, status, database, result, error, past, running: null };
  run.addEventListener("click", () => execute(state));
  stop.addEventListener("click", () => cancel(state));
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      execute(state);
    }
  });
  drawHistory(state);
  const databases = await get("/api/databases");
  show(database, databases.map((one) => el("option", { value: one.name }, one.name)));
  database.value = server.default || databases[0]?.name;
  const completion = new Completion(editor, box, words(databases));
  editor.focus();
  return () => { completion.close(); state.running?.controller.abort(); };
}

function words(databases) {
  const names = new Set();
  for (const one of databases) {
    for (const schema of one.schemas) {
      names.add(schema.name);
      for (const table of schema.tables) names.add(table.name).add(`${schema.name}.${table.name}`);
    }
  }
  return [...names];
}

async function execute(state) {
  const sql = state.editor.value.trim().replace(/;\s*$/, "");
  if (!sql || state.running) return;
  history.replaceState(null, "", `/sql?q=${encodeURIComponent(sql)}`);
  const running = { controller: new AbortController(), id: "" };
  Object.assign(state, { running });
  state.run.disabled = true;
  state.stop.disabled = false;
  show(state.error);
  show(state.result);
  const began = performance.now();
  const timer = setInterval(() => {
    state.status.textContent = `${seconds((performance.now() - began) / 1000)}${running.grid ? ` · ${running.grid.summary()}` : ""}`;
  }, 200);
  let outcome = "";
  try {
    const response = await post("/api/sql", { sql, database: state.database.value }, running.controller.signal);
    for await (const line of lines(response)) outcome = take(state, running, sql, line) || outcome;
    if (running.grid) running.grid.draw(true);
  } catch (error) {
    outcome = error.name === "AbortError" ? "cancelled" : "failed";
    if (error.name !== "AbortError") report(error);
  }
  clearInterval(timer);
  const took = seconds((performance.now() - began) / 1000);
  state.status.textContent = `${outcome} · ${took}`;
  announce(state.status.textContent);
  state.run.disabled = false;
  state.stop.disabled = true;
  state.running = null;
  remember({ sql, at: new Date().toISOString(), outcome, took });
  drawHistory(state);
}

function take(state, running, sql, line) {
  if (line.id) running.id = line.id;
  if (line.columns) {
    running.grid = new Grid(line.columns, "Rows of the result");
    show(state.result, toolbar(state, running.grid, sql), running.grid.element);
  }
  if (line.values) running.grid.add(line.values, line.rows);
  if (line.changed !== undefined) {
    show(state.result, el("p", {}, `${count(line.changed)} ${line.changed === 1 ? "row" : "rows"} changed.`));
    return `${count(line.changed)} changed`;
  }
  if (line.error) {
    showError(state, sql, line);
    return line.code === "CANCELLED" ? "cancelled" : "failed";
  }
  if (line.done !== undefined) {
    if (line.cut) state.result.append(el("p", { class: "muted" }, `These are the first ${count(line.done)} rows; a download has all.`));
    return running.grid.summary();
  }
  return "";
}

async function cancel(state) {
  const { running } = state;
  if (!running) return;
  state.stop.disabled = true;
  try {
    if (running.id) await post("/api/cancel", { id: running.id });
    else running.controller.abort();
  } catch (error) {
    report(error);
  }
}

// Where an error is, if its text tells: DuckDB and Spark count lines, others name what they do not know.
export function positionOf(sql, message) {
  const line = /\(line (\d+), pos (\d+)\)|line (\d+):(\d+)|line (\d+), column (\d+)/i.exec(message);
  if (line) {
    const [row, column] = line.slice(1).filter((one) => one !== undefined).map(Number);
    const before = sql.split("\n").slice(0, row - 1).reduce((sum, text) => sum + text.length + 1, 0);
    return [before + column, before + column + (/^\w+/.exec(sql.slice(before + column))?.[0].length || 1)];
  }
  for (const [, name] of message.matchAll(/[`'"]([^`'"]{1,100})[`'"]/g)) {
    const last = name.split(".").at(-1);
    for (const word of [name, last]) {
      const at = sql.toLowerCase().indexOf(word.toLowerCase());
      if (at >= 0) return [at, at + word.length];
    }
  }
  return null;
}

function showError(state, sql, line) {
  const found = positionOf(sql, line.error);
  show(state.error, el("p", {}, el("strong", {}, line.code), ` ${line.error}`));
  if (!found || state.editor.value.trim().replace(/;\s*$/, "") !== sql) return;
  const skipped = state.editor.value.length - state.editor.value.trimStart().length;
  const [start, end] = found.map((one) => one + skipped);
  const before = state.editor.value.slice(0, start).split("\n");
  state.error.append(el("pre", {}, el("span", {}, sql.split("\n")[before.length - 1] ?? ""), `\n${" ".repeat(before.at(-1).length)}${"^".repeat(Math.max(1, end - start))}`));
  state.editor.focus();
  state.editor.setSelectionRange(start, end);
}

function toolbar(state, grid, sql) {
  const drawing = el("div", { hidden: true });
  const columns = grid.columns.map((column) => column.name);
  const pick = (label, chosen) => {
    const list = el("select", { "aria-label": label }, columns.map((name) => el("option", { value: name }, name)));
    list.value = columns[chosen] ?? columns[0];
    return list;
  };
  const numeric = grid.columns.findIndex((column, index) => column.shown === "number" && index > 0);
  const kind = el("select", { "aria-label": "Kind of chart" }, ["bar", "line", "scatter"].map((name) => el("option", { value: name }, name)));
  const [x, y] = [pick("Across", 0), pick("Up", numeric >= 0 ? numeric : 0)];
  const plot = el("div");
  const draw = () => {
    const at = (name) => grid.values[columns.indexOf(name)].slice(0, kind.value === "bar" ? MAX_BARS : 5000);
    const numbers = at(y.value).map((value) => (value === null ? NaN : Number(value)));
    const labels = at(x.value).map((value) => (kind.value === "scatter" && grid.columns[columns.indexOf(x.value)].shown === "number" ? Number(value) : value));
    show(plot, numbers.some(Number.isFinite) ? chart(kind.value, labels, numbers, { label: `${y.value} by ${x.value}` }) : el("p", { class: "muted" }, `${y.value} has no numbers.`));
  };
  for (const list of [kind, x, y]) list.addEventListener("change", draw);
  show(drawing, el("div", { class: "row" }, kind, el("label", {}, "across ", x), el("label", {}, "up ", y)), plot);
  const toggle = el("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: () => {
    drawing.hidden = !drawing.hidden;
    toggle.setAttribute("aria-expanded", String(!drawing.hidden));
    if (!drawing.hidden) draw();
  } }, "Chart");
  const downloads = ["csv", "parquet", "arrow"].map((format) => el("button", { type: "button", class: "quiet", onclick: (event) => download(state, event.target, sql, format) }, format === "csv" ? "CSV" : format[0].toUpperCase() + format.slice(1)));
  return [el("div", { class: "row" }, toggle, el("span", { class: "muted" }, "Download"), downloads), drawing];
}

async function download(state, button, sql, format) {
  button.disabled = true;
  try {
    const response = await post("/api/download", { sql, format, database: state.database.value });
    const address = URL.createObjectURL(await response.blob());
    const link = el("a", { href: address, download: `rows.${format}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  } catch (error) {
    report(error);
  }
  button.disabled = false;
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(STORE) || "[]");
  } catch {
    return [];
  }
}

function remember(entry) {
  const others = remembered().filter((one) => one.sql !== entry.sql);
  localStorage.setItem(STORE, JSON.stringify([entry, ...others].slice(0, 100)));
}

function drawHistory(state) {
  const entries = remembered();
  show(state.past, entries.length ? el("details", {}, el("summary", {}, `History in this browser (${entries.length})`), el("ul", { class: "past" }, entries.map((one) => el("li", {},
    el("button", { type: "button", class: "quiet", onclick: () => { state.editor.value = one.sql; state.editor.focus(); } }, one.sql.slice(0, 200)), el("span", { class: "muted" }, `${one.outcome} · ${one.took}`)))),
  el("button", { type: "button", class: "quiet", onclick: () => { localStorage.removeItem(STORE); drawHistory(state); } }, "Forget it")) : null);
}
