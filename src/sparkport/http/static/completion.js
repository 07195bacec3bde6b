// Completes the word before the cursor: keywords, and the names of schemas and tables.

import { el, show } from "./dom.js";

const KEYWORDS = ("SELECT FROM WHERE GROUP BY ORDER LIMIT HAVING JOIN LEFT INNER ON AS AND OR NOT IN IS NULL LIKE BETWEEN CASE WHEN THEN ELSE END DISTINCT UNION ALL "
  + "WITH INSERT INTO VALUES UPDATE SET DELETE MERGE USING CREATE TABLE SCHEMA DROP ALTER ADD COLUMN COUNT SUM AVG MIN MAX CAST DESC ASC EXPLAIN").split(" ");
const MOST = 8;

export class Completion {
  constructor(editor, box, names) {
    this.editor = editor;
    this.words = [...names, ...KEYWORDS];
    this.list = el("ul", { id: "completion", class: "completion", role: "listbox", "aria-label": "Completions", hidden: true });
    box.append(this.list);
    editor.setAttribute("aria-controls", "completion");
    editor.setAttribute("aria-autocomplete", "list");
    editor.addEventListener("input", () => this.offer());
    editor.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    editor.addEventListener("keydown", (event) => this.key(event), { capture: true });
  }

  offer(isAsked = false) {
    const before = this.editor.value.slice(0, this.editor.selectionStart);
    this.word = /[\w.]*$/.exec(before)[0];
    const start = this.word.toLowerCase();
    this.found = start || isAsked ? this.words.filter((one) => one.toLowerCase().startsWith(start) && one.toLowerCase() !== start).slice(0, MOST) : [];
    this.chosen = 0;
    this.draw();
  }

  draw() {
    this.list.hidden = !this.found.length;
    show(this.list, this.found.map((one, index) => el("li", { id: `completion-${index}`, role: "option", "aria-selected": String(index === this.chosen), onmousedown: (event) => {
      event.preventDefault();
      this.take(one);
    } }, one)));
    if (this.found.length) this.editor.setAttribute("aria-activedescendant", `completion-${this.chosen}`);
    else this.editor.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      this.offer(true);
      return;
    }
    if (this.list.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.chosen = (this.chosen + step + this.found.length) % this.found.length;
      this.draw();
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.ctrlKey && !event.metaKey)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      this.take(this.found[this.chosen]);
    } else if (event.key === "Escape") {
      this.close();
    }
  }

  take(word) {
    const end = this.editor.selectionStart;
    const start = end - this.word.length;
    this.editor.setRangeText(word, start, end, "end");
    this.close();
  }

  close() {
    this.found = [];
    this.draw();
  }
}
