"use strict";
/* How numbers are written, and where they are written. */

const $ = (id) => document.getElementById(id);

function scaled(number, step, units, digits = 3) {
  let i = 0;
  while (Math.abs(number) >= step && i < units.length - 1) {
    number /= step;
    i++;
  }
  return `${number.toLocaleString("en", { maximumSignificantDigits: digits })}\u00a0${units[i]}`.trim();
}
const whole = (number) => Math.round(number).toLocaleString("en");
const bytes = (number) => scaled(number, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const count = (number) => scaled(number, 1000, ["", "k", "M", "G", "T", "P"]);
const flops = (number) => scaled(number, 1000, ["FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"]);
const perSecond = (number) => scaled(number, 1000, ["/s", "k/s", "M/s"], number < 1 ? 2 : 3).replace("\u00a0/", "/");
const bytesPerSecond = (number) => `${bytes(number)}/s`;
const percent = (share) => `${(100 * share).toLocaleString("en", { maximumSignificantDigits: 3 })}\u00a0%`;
const time = (s) => (Number.isFinite(s) ? scaled(s * 1e6, 1000, ["µs", "ms", "s"]) : "–");
const clock = (s) => new Date(s * 1000).toLocaleTimeString("en-GB");

function since(s) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, parts.findIndex(([unit]) => s >= unit));
  return parts.slice(first, first + 2).map(([unit, name], i) =>
    `${Math.floor((i === 0 ? s : s % parts[first][0]) / unit)} ${name}`).join(" ");
}

let backends = []; /* of the daemon: "cpu", "cuda"; empty: not known yet */
const isCpu = () => backends.length > 0 && backends.every((name) => name === "cpu");

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(name, text, className) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (className !== undefined) element.className = className;
  return element;
}

/* As many children as are wanted, old ones kept: what somebody reads or selects stays in place. */
function children(parent, wanted, create) {
  while (parent.children.length > wanted) parent.lastElementChild.remove();
  while (parent.children.length < wanted) parent.append(create());
  return parent.children;
}

/* The names of the columns of a table that a narrow window shows as blocks; empty for other tables. */
function columnNames(body) {
  return [...(body.closest(".blocks")?.querySelectorAll("thead th") ?? [])].map((name) => name.textContent);
}

/* Gives the cells of a row the names of their columns, which stand beside the values in a block. */
function nameCells(row, names) {
  row.role = "row";
  [...row.children].forEach((cell, i) => {
    cell.role = cell.tagName === "TH" ? "rowheader" : "cell";
    cell.dataset.name = names[i];
  });
}

/* Rows of text, the first of each its header. {text, of: [used, capacity]} has a meter below it that
 * turns when little is left; {text, share: [part, whole]} has one that does not. */
function rows(id, table) {
  const lines = children($(id), table.length, () => document.createElement("tr"));
  const names = columnNames($(id));
  table.forEach((cells, i) => {
    const line = lines[i];
    cells.forEach((cell, j) => {
      if (line.children.length <= j) {
        const made = document.createElement(j === 0 ? "th" : "td");
        if (j === 0) made.scope = "row";
        line.append(made);
      }
      const where = line.children[j];
      const [used, most] = cell.of ?? cell.share ?? [0, 0];
      if (most > 0 !== (where.querySelector("meter") !== null)) where.replaceChildren();
      if (!(most > 0)) {
        write(where, cell.text ?? cell);
        return;
      }
      if (where.firstChild === null) {
        where.append("", document.createElement("meter"));
        where.lastChild.setAttribute("aria-hidden", "true"); /* the text beside the meter says the same */
      }
      if (where.firstChild.data !== cell.text) where.firstChild.data = cell.text;
      const meter = where.querySelector("meter");
      meter.max = most;
      meter.value = used;
      [meter.low, meter.high, meter.optimum] = cell.share ? [0, most, most] : [most * 0.75, most * 0.95, 0];
    });
    while (line.children.length > cells.length) line.lastElementChild.remove();
    if (names.length > 0) nameCells(line, names);
  });
}

function tiles(id, list) {
  const made = children($(id), list.length, () => {
    const tile = document.createElement("div");
    tile.append(document.createElement("dt"), document.createElement("dd"));
    return tile;
  });
  list.forEach(([name, text, state], i) => {
    write(made[i].children[0], name);
    write(made[i].children[1], text);
    made[i].children[1].dataset.state = state ?? "";
  });
}

function status(state, text) {
  $("status").dataset.state = state;
  write($("status"), text);
}

/* The name of a stage, with its meaning if the name is an abbreviation. */
function stageText(name) {
  const meaning = { h2d: "copy to the device", d2h: "copy from the device" }[name];
  return meaning === undefined ? name : `${name} (${meaning})`;
}

/* [[name, class of color], ...] */
function key(id, entries) {
  $(id).replaceChildren(...entries.map(([name, color]) => make("span", name, color)));
}
