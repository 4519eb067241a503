"use strict";
/* Elements, and what is written into them. Nothing is ever read as HTML. */

const $ = (id) => document.getElementById(id);

function make(name, content, className) {
  const element = document.createElement(name);
  if (className !== undefined) element.className = className;
  if (content !== undefined) element.append(...(Array.isArray(content) ? content : [content]));
  return element;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* A path, which may be broken into lines before each slash. */
const pathText = (path) => make("span", path.split(/(?=\/)/).flatMap((part) => [make("wbr"), part]), "path");

/* A label around a control. */
function labelled(text, control) {
  const label = make("label", text);
  label.append(control);
  return label;
}

function choice(options, chosen) {
  const select = make("select");
  for (const [value, text] of options) {
    const option = make("option", text);
    option.value = value;
    option.selected = value === chosen;
    select.append(option);
  }
  return select;
}

/* A details element, closed at first. */
function fold(title, content, className = "more") {
  return make("details", [make("summary", title), ...content], className);
}

function scaled(number, step, units) {
  let i = 0;
  while (Math.abs(number) >= step && i < units.length - 1) {
    number /= step;
    i++;
  }
  return `${number.toLocaleString("en", { maximumSignificantDigits: 3 })}\u00a0${units[i]}`;
}
const bytesText = (number) => (number < 1024 ? `${number} bytes` : scaled(number, 1024, ["B", "KiB", "MiB", "GiB"]));
const timeText = (ms) => scaled(ms * 1000, 1000, ["µs", "ms", "s"]);
