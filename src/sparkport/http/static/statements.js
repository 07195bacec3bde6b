// What runs, live: a list with progress and a way to end each, and how the server is doing over time.

import { get, post } from "./api.js";
import { announce, bytes, count, el, seconds, show } from "./dom.js";
import { report } from "./main.js";
import { chart } from "./plot.js";

const EVERY = 1000;
const KEPT = 180;
const OVER = new Set(["finished", "failed", "cancelled"]);
const COLUMNS = ["Id", "State", "Kind", "Statement", "By", "Rows", "Bytes", "Time", ""];
const KEYS = { Id: "id", State: "state", Kind: "kind", Statement: "sql", By: "principal", Rows: "rows", Bytes: "bytes", Time: "seconds" };
const samples = [];

export async function open(content, [selected], server) {
  const filter = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter statements" });
  const running = el("input", { type: "checkbox", id: "running" });
  const plots = el("div", { class: "plots" });
  const body = el("tbody");
  const detail = el("section", { "aria-live": "off" });
  const order = { by: "", isDown: true };
  const heads = COLUMNS.map((name) => el("th", { scope: "col", class: ["Rows", "Bytes", "Time"].includes(name) ? "number" : null }, KEYS[name] ? el("button", { type: "button", class: "head", onclick: () => {
    order.isDown = order.by === KEYS[name] ? !order.isDown : true;
    order.by = KEYS[name];
    heads.forEach((head, index) => head.setAttribute("aria-sort", COLUMNS[index] === name ? (order.isDown ? "descending" : "ascending") : "none"));
    draw();
  } }, name) : el("span", { class: "hidden" }, "Cancel")));
  let statements = [];
  const draw = () => {
    const word = filter.value.toLowerCase();
    let shown = statements.filter((one) => (!running.checked || !OVER.has(one.state))
      && (!word || `${one.id} ${one.state} ${one.kind} ${one.sql} ${one.table} ${one.principal}`.toLowerCase().includes(word)));
    if (order.by) shown = [...shown].sort((one, other) => compare(one[order.by], other[order.by]) * (order.isDown ? -1 : 1));
    const focused = document.activeElement?.dataset?.id;
    show(body, shown.slice(0, 200).map((one) => row(one, tick)));
    if (focused) body.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
    if (!shown.length) show(body, el("tr", {}, el("td", { colspan: COLUMNS.length, class: "muted" }, "No statements.")));
    const one = statements.find((each) => each.id === selected);
    if (selected) show(detail, one ? describe(one) : el("p", { class: "muted" }, `Statement ${selected} is not known any more.`));
  };
  filter.addEventListener("input", draw);
  running.addEventListener("change", draw);
  show(content, el("h1", {}, "Statements"), plots, detail,
    el("div", { class: "row" }, filter, el("label", { for: "running" }, running, " only running")),
    el("div", { class: "scroll" }, el("table", { class: "plain statements" }, el("thead", {}, el("tr", {}, heads)), body)),
    el("p", { class: "muted" }, server.is_administrator ? "You are an administrator: these are the statements of all." : "These are your own statements."));
  let timer = 0;
  let isOpen = true;
  async function tick() {
    clearTimeout(timer);
    try {
      const pulse = get("/api/pulse");
      statements = await get("/api/statements");
      remember(await pulse);
      if (!isOpen) return;
      draw();
      drawPlots(plots);
      timer = setTimeout(tick, EVERY);
    } catch (error) {
      if (isOpen) report(error);
    }
  }
  await tick();
  return () => { isOpen = false; clearTimeout(timer); };
}

const compare = (one, other) => (typeof one === "number" ? one - other : String(one).localeCompare(String(other)));

function remember(pulse) {
  samples.push({ at: Date.now(), ...pulse });
  if (samples.length > KEPT) samples.shift();
}

function drawPlots(plots) {
  const pairs = samples.slice(1).map((sample, index) => [samples[index], sample]);
  const labels = pairs.map(([, sample]) => new Date(sample.at).toLocaleTimeString("en-GB"));
  const rate = (key) => pairs.map(([before, sample]) => (sample[key] - before[key]) / Math.max(0.1, (sample.at - before.at) / 1000));
  const latency = pairs.map(([before, sample]) => {
    const done = sample.requests - before.requests;
    return done ? (sample.seconds - before.seconds) / done : 0;
  });
  const size = { width: 360, height: 150 };
  const plot = (title, numbers, format) => el("figure", {}, el("figcaption", {}, title),
    numbers.length ? chart("line", labels, numbers, { ...size, format, label: `${title}, now ${format(numbers.at(-1))}` }) : el("p", { class: "muted" }, "measuring …"));
  show(plots,
    plot("Rows per second", rate("rows"), (value) => (value < 10 ? String(Number(value.toFixed(1))) : count(Math.round(value)))),
    plot("Time of a request", latency, seconds),
    plot("Memory", pairs.map(([, sample]) => sample.memory), bytes));
}

function row(one, refresh) {
  const what = one.sql || one.table;
  const isOver = OVER.has(one.state);
  return el("tr", {},
    el("th", { scope: "row" }, el("a", { href: `/statements/${encodeURIComponent(one.id)}`, "data-id": `link-${one.id}` }, one.id)),
    el("td", {}, el("span", { class: `state ${one.state}` }, one.state), progress(one)),
    el("td", {}, one.kind), el("td", { class: "what", title: what }, el("code", {}, what.slice(0, 160))),
    el("td", {}, one.principal), el("td", { class: "number" }, count(one.rows)), el("td", { class: "number" }, bytes(one.bytes)),
    el("td", { class: "number" }, seconds(one.seconds)),
    el("td", {}, isOver ? "" : el("button", { type: "button", class: "quiet", "data-id": one.id, "aria-label": `Cancel ${one.id}`, onclick: async (event) => {
      event.target.disabled = true;
      try {
        await post("/api/cancel", { id: one.id });
        announce(`Statement ${one.id} cancelled`);
        refresh();
      } catch (error) {
        report(error);
      }
    } }, "Cancel")));
}

function progress(one) {
  if (!one.progress || !one.progress.total) return null;
  return el("progress", { max: one.progress.total, value: one.progress.done, "aria-label": `${one.progress.done} of ${one.progress.total} tasks` });
}

function describe(one) {
  const facts = [["Id", one.id], ["State", one.state], ["Code", one.code], ["Error", one.error], ["Kind", one.kind], ["Dialect", one.dialect], ["Table", one.table],
    ["Read by", one.read_mode], ["Rows", count(one.rows)], ["Bytes", bytes(one.bytes)], ["Tasks", one.progress ? `${one.progress.done} of ${one.progress.total}` : ""],
    ["Started", one.started], ["Ended", one.ended], ["Time", seconds(one.seconds)], ["By", one.principal], ["Client", one.client], ["Address", one.peer], ["Trace id", one.trace_id]];
  return el("div", { class: "card" }, el("div", { class: "row spread" }, el("h2", {}, `Statement ${one.id}`), el("a", { href: "/statements" }, "Close")),
    one.sql && el("pre", {}, one.sql),
    el("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
}
