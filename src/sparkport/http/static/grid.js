// A table of any number of rows: only those that can be seen are in the page.

import { count, el } from "./dom.js";

const ROW = 28;
const AROUND = 12;

export class Grid {
  constructor(columns, label) {
    this.columns = columns;
    this.values = columns.map(() => []);
    this.rows = 0;
    this.widths = columns.map((column) => Math.max(column.name.length, 6));
    this.colgroup = el("colgroup", {}, columns.map(() => el("col")));
    this.head = el("thead", {}, el("tr", {}, columns.map((column) => el("th", { scope: "col", title: column.type, class: column.shown }, column.name))));
    this.body = el("tbody");
    this.table = el("table", { class: "grid", "aria-label": label }, this.colgroup, this.head, this.body);
    this.element = el("div", { class: "gridbox", tabindex: "0", role: "region", "aria-label": `${label}, scrolls` }, this.table);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  add(values, rows) {
    for (let index = 0; index < this.columns.length; index += 1) {
      const cells = values[index];
      for (let row = 0; row < rows; row += 1) this.values[index].push(cells[row]);
      if (this.rows < 500) for (const cell of cells.slice(0, 200)) this.widths[index] = Math.max(this.widths[index], Math.min(40, text(cell).length));
    }
    this.rows += rows;
    this.colgroup.childNodes.forEach((column, index) => { column.style.width = `${this.widths[index] + 3}ch`; });
    this.table.style.width = `${this.widths.reduce((sum, width) => sum + width + 3, 0)}ch`;
    this.table.setAttribute("aria-rowcount", this.rows + 1);
    this.draw(true);
  }

  draw(isNew = false) {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - AROUND);
    const last = Math.min(this.rows, first + Math.ceil(this.element.clientHeight / ROW) + 2 * AROUND);
    if (!isNew && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const drawn = [spacer(first, this.columns.length)];
    for (let row = first; row < last; row += 1) {
      drawn.push(el("tr", { "aria-rowindex": row + 2 }, this.columns.map((column, index) => cell(this.values[index][row], column))));
    }
    drawn.push(spacer(this.rows - last, this.columns.length));
    this.body.replaceChildren(...drawn);
  }

  summary() {
    return `${count(this.rows)} ${this.rows === 1 ? "row" : "rows"}`;
  }
}

function spacer(rows, columns) {
  const row = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colspan: columns || 1 }));
  row.style.height = `${rows * ROW}px`;
  row.hidden = rows === 0;
  return row;
}

function text(value) {
  return value === null || value === undefined ? "NULL" : String(value);
}

function cell(value, column) {
  const isNull = value === null || value === undefined;
  return el("td", { class: `${column.shown}${isNull ? " null" : ""}`, title: text(value).length > 40 ? text(value) : null }, text(value));
}
