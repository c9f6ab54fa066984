"use strict";
// Sortable tables and tooltips. Everything can be read without this script.

const STATES = ["none", "ascending", "descending"];
const WORDS = new Intl.Collator("en", { numeric: true });
const EDGE = 8; // pixels between a tooltip and the edges of the window
const TIPPED = "tbody [data-tip], g[data-tip]"; // what the arrow keys walk through
const tip = document.getElementById("tip");
const spoken = document.getElementById("spoken");

/** What a cell is sorted by: a number, words, or null where there is nothing. */
function keyOf(cell, numeric) {
  if (!numeric) return cell.textContent.trim() || null;
  return "value" in cell.dataset ? Number(cell.dataset.value) : null;
}

/** Order of two keys; what has no value stays last in both directions. */
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" ? a - b : WORDS.compare(a, b));
}

/** Make the headings of a table buttons: ascending, descending, the order of the report. */
function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const groups = [...table.tBodies].map((body) =>
    [body, [...body.rows].filter((row) => !row.matches(".group"))]);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    Object.assign(button.dataset, head.dataset);
    delete head.dataset.tip;
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const state = STATES[(STATES.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
      const sign = state === "descending" ? -1 : 1;
      for (const other of heads) other.setAttribute("aria-sort", other === head ? state : "none");
      for (const [body, rows] of groups) { // always from the report's order, so that ties keep it
        const keyed = rows.map((row) => [row, keyOf(row.cells[column], head.dataset.sort === "number")]);
        if (state !== "none") keyed.sort((a, b) => compare(a[1], b[1], sign));
        body.append(...keyed.map(([row]) => row));
      }
      spoken.textContent = state === "none" ? "the order of the report"
        : `sorted by ${button.firstElementChild.textContent.trim()}, ${state}`;
    });
  });
}

const described = () => document.querySelector("[aria-describedby=tip]");

function hideTip() {
  described()?.removeAttribute("aria-describedby");
  tip.hidden = true;
}

/** Show the tooltip above an element, or below it where there is no room, inside the window. */
function showTip(target) {
  if (!target) return;
  hideTip();
  tip.textContent = target.dataset.tip;
  tip.hidden = false;
  target.setAttribute("aria-describedby", "tip");
  const box = target.getBoundingClientRect();
  const room = document.documentElement.clientWidth - tip.offsetWidth - EDGE;
  const left = box.left + (box.width - tip.offsetWidth) / 2;
  const above = box.top - tip.offsetHeight; // touching, so that the pointer can move onto it
  tip.style.left = `${Math.max(EDGE, Math.min(left, room))}px`;
  tip.style.top = `${above >= EDGE ? above : box.bottom}px`;
}

/** One stop of the tab key per table or figure; the arrow keys go on from there. */
function walk(event) {
  const from = event.target.closest(TIPPED);
  const within = from?.closest("[data-tips]");
  if (!within) return;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
  const upright = /Up|Down/.test(event.key); // within a column, past what has no tooltip
  const all = [...within.querySelectorAll(TIPPED)].filter((each) => !upright || each.cellIndex === from.cellIndex);
  const to = all[all.indexOf(from) + (step ?? NaN)];
  if (step) event.preventDefault();
  if (!to) return;
  from.setAttribute("tabindex", "-1");
  to.setAttribute("tabindex", "0");
  to.focus();
}

for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
for (const within of document.querySelectorAll("[data-tips]")) {
  const all = within.querySelectorAll(TIPPED);
  all.forEach((each, place) => each.setAttribute("tabindex", place ? "-1" : "0"));
}
for (const [begin, end] of [["pointerover", "pointerout"], ["focusin", "focusout"]]) {
  document.addEventListener(begin, ({ target }) => showTip(target.closest("[data-tip]")));
  document.addEventListener(end, (event) => event.relatedTarget !== tip && hideTip());
}
document.addEventListener("scroll", () => showTip(described()), { passive: true, capture: true });
document.addEventListener("keydown", (event) => event.key === "Escape" ? hideTip() : walk(event));
