/* The charts over time, which share their times and their pointer: own SVG, with axes and the values at a time. */

const CHART_HEIGHT = 190;
const RANGES = [[60, "1 min"], [300, "5 min"], [KEPT_S, "15 min"], [3600, "1 h"], [HOURS_S, "6 h"]];
let range = KEPT_S; /* how many seconds before now the charts show, where the daemon has so many */
let zoom = null; /* [from, to], the times that somebody has chosen; null: none */
let logarithmic = false;
let shown = { list: [], from: 0, to: 1 }; /* the samples and the times that are drawn */
let cursorAt = null; /* the time that is pointed at; null: none */
let drag = null; /* {chart, from, to}: times that are being chosen; null: none */
let peakFlops = 0; /* the greatest peak of all devices together; 0: not known */

const rate = (name) => (sample) => sample[name] / sample.seconds;
/* The latest capacity that a sample tells; 0: not known. */
const capacity = (part, name) => samples[samples.length - 1]?.[part]?.[name] ?? 0;
/* A value that is 0 where it is not known. */
const known = (number) => (number > 0 ? number : null);
const cores = (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 });

/* `roof`: the most that there can be, with its name. `most`: the end of the axis, which is then linear. `stacked`: the
 * values are parts of a sum, and are drawn on top of each other where the axis is linear. */
const CHARTS = [
  { title: "Requests by operation", unit: perSecond, stacked: true,
    get series() { return computing.map((op) => [op, (sample) => sample.requests[op] / sample.seconds]); } },
  { title: "Latency", unit: time, series: [
    ["p50", (sample) => quantile([sample], 0.5)],
    ["p99", (sample) => quantile([sample], 0.99)]] },
  { title: "Errors by status", unit: perSecond, series: [
    ["4xx", rate("client_errors")], ["429", rate("refused")], ["5xx", rate("failed")]] },
  { title: "Waiting for the device", unit: (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 }), series: [
    ["mean", (sample) => sample.queue.mean],
    ["max", (sample) => sample.queue.max]] },
  { title: "Device busy", unit: percent, most: 1, series: [["busy", (sample) => sample.busy]] },
  { title: "Arithmetic", unit: flops, series: [["computed", rate("flops")]],
    roof: () => ["peak", peakFlops] },
  { title: "Bytes by direction", unit: bytesPerSecond, series: [
    ["in", rate("received_bytes")], ["out", rate("sent_bytes")]] },
  { title: "Processors in use", unit: cores, series: [
    ["host", (sample) => known(sample.cpu?.host)], ["gemmd", (sample) => known(sample.cpu?.process)]],
    roof: () => ["all", capacity("cpu", "processors")] },
  { title: "Memory in use", unit: bytes, series: [
    ["host", (sample) => known(sample.memory?.host)], ["gemmd", (sample) => known(sample.memory?.process)]],
    roof: () => ["all", capacity("memory", "capacity")] },
];

function makeChart(chart) {
  const figure = make("figure");
  const caption = make("figcaption");
  chart.heading = make("b", chart.title);
  caption.append(chart.heading, ...chart.series.map((_, i) => make("span", "", `s${i}`)));
  const plot = svg("svg", { class: "plot zoomable", tabindex: 0, role: "img", "aria-label": chart.title });
  figure.append(caption, plot);
  chart.plot = plot;
  chart.values = [...caption.querySelectorAll("span")];
  const timeAt = (event) => {
    const box = plot.getBoundingClientRect();
    const share = (event.clientX - box.left - chart.left) / (box.width - chart.left - chart.right);
    return shown.from + (shown.to - shown.from) * Math.min(1, Math.max(0, share));
  };
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || chart.x === undefined) return;
    plot.setPointerCapture(event.pointerId);
    drag = { chart, from: timeAt(event), to: timeAt(event) };
  });
  plot.addEventListener("pointermove", (event) => {
    if (drag !== null) drag.to = timeAt(event);
    pointAt(timeAt(event));
  });
  plot.addEventListener("pointerup", () => {
    if (drag === null) return;
    const { from, to } = drag;
    drag = null;
    if (Math.abs(chart.x(to) - chart.x(from)) > 5) zoomTo(Math.min(from, to), Math.max(from, to));
    else pointAt(cursorAt);
  });
  plot.addEventListener("pointercancel", () => { drag = null; });
  plot.addEventListener("dblclick", () => zoomTo(null));
  plot.addEventListener("pointerleave", () => { if (drag === null) pointAt(null); });
  plot.addEventListener("blur", () => {
    caption.removeAttribute("aria-live");
    pointAt(null);
  });
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity }[event.key];
    const factor = { "+": 0.5, "-": 2 }[event.key];
    if (event.key === "Escape") {
      caption.removeAttribute("aria-live");
      pointAt(null);
      zoomTo(null);
    }
    if (shown.list.length === 0 || steps === undefined && factor === undefined) return;
    event.preventDefault();
    if (factor !== undefined) {
      zoomBy(factor);
      return;
    }
    caption.setAttribute("aria-live", "polite"); /* not while the newest values change each second */
    caption.setAttribute("aria-atomic", "true");
    const from = cursorAt === null ? shown.list.length - 1 : shown.list.indexOf(nearest(cursorAt));
    pointAt(shown.list[Math.min(shown.list.length - 1, Math.max(0, from + steps))].time);
  });
  return figure;
}

function nearest(at) {
  return shown.list.reduce((best, sample) => (Math.abs(sample.time - at) < Math.abs(best.time - at) ? sample : best));
}

function pointAt(at) {
  cursorAt = at;
  for (const chart of CHARTS) drawCursor(chart);
}

/* Shows the times between two, or with null again those up to now. A zoom ends at the least that can be told apart. */
function zoomTo(from, to) {
  zoom = from === null ? null : [from, Math.max(to, from + 5)];
  cursorAt = null;
  showCharts();
}

/* Shows a part of the times around the pointer, or more of them. */
function zoomBy(factor) {
  const width = (shown.to - shown.from) * factor;
  const middle = cursorAt ?? (shown.from + shown.to) / 2;
  const end = samples[samples.length - 1].time;
  if (zoom !== null && factor > 1 && width >= range) zoomTo(null);
  else zoomTo(Math.min(middle - width / 2, end - width), Math.min(middle + width / 2, end));
}

/* The values at the pointer, or the newest ones; and the times that are being chosen. */
function drawCursor(chart) {
  if (shown.list.length === 0 || chart.x === undefined) return;
  const sample = cursorAt === null ? shown.list[shown.list.length - 1] : nearest(cursorAt);
  chart.series.forEach(([name, value], i) => {
    const now = value(sample);
    write(chart.values[i], `${name}: ${now === null ? "–" : chart.unit(now)}`);
  });
  write(chart.heading, cursorAt === null ? chart.title : `${chart.title} at ${clock(sample.time)}`);
  chart.cursor.setAttribute("visibility", cursorAt === null ? "hidden" : "visible");
  chart.cursor.setAttribute("d", `M${chart.x(sample.time).toFixed(1)} ${chart.top}V${chart.bottom}`);
  const [from, to] = drag?.chart === chart ? [drag.from, drag.to].map(chart.x) : [0, 0];
  chart.band.setAttribute("x", Math.min(from, to));
  chart.band.setAttribute("width", Math.abs(to - from));
}

/* The numbers of the samples, in runs between which a value or a sample is missing. */
function runsOf(values) {
  const runs = [];
  let before = null;
  shown.list.forEach((sample, i) => {
    if (values[i] === null) {
      before = null;
      return;
    }
    if (before === null || sample.time - before >= 2.5 * sample.seconds + 1) runs.push([]);
    runs[runs.length - 1].push(i);
    before = sample.time;
  });
  return runs;
}

/* A line through the values, with gaps. */
function linePath(values, x, y) {
  const point = (i) => `${x(shown.list[i].time).toFixed(1)} ${y(values[i]).toFixed(1)}`;
  return runsOf(values).map((run) => `M${point(run[0])}h0.8${run.slice(1).map((i) => `L${point(i)}`).join("")}`).join("");
}

/* The area between two lines, with gaps. */
function areaPath(upper, lower, x, y) {
  const point = (of) => (i) => `${x(shown.list[i].time).toFixed(1)} ${y(of[i]).toFixed(1)}`;
  return runsOf(upper).map((run) => `M${[...run.map(point(upper)), ...[...run].reverse().map(point(lower))].join("L")}Z`).join("");
}

/* The values of each series on top of those of all series before it. */
function stack(values) {
  let below = shown.list.map(() => 0);
  return values.map((of) => {
    below = below.map((sum, i) => sum + of[i]);
    return below;
  });
}

/* The highest value that the axis has to show: the p99, if a few values are so much higher that the others would be
 * a flat line. */
function highestShown(sorted) {
  const most = sorted[sorted.length - 1] ?? 0;
  const p99 = sorted[Math.ceil(0.99 * sorted.length) - 1] ?? 0;
  return p99 > 0 && most > 3 * p99 ? p99 : most;
}

/* The scale of the values of a chart, with the values of its grid. */
function valueAxis(chart, values) {
  const sorted = values.flat().filter((value) => value !== null).sort((one, other) => one - other);
  const [roofName, roof] = chart.roof?.() ?? ["", 0];
  const isRoof = (highest) => roof > 0 && highest > roof / 20;
  const most = sorted[sorted.length - 1] ?? 0;
  const lowest = sorted.find((value) => value > most / 1e9);
  if (logarithmic && chart.most === undefined && lowest !== undefined) {
    const from = 10 ** Math.floor(Math.log10(lowest)), to = 10 ** Math.ceil(Math.log10(isRoof(most) ? Math.max(most, roof) : most));
    const all = decades(from, Math.max(to, 10 * from));
    const ticks = all.filter((_, i) => i % Math.ceil(all.length / 6) === 0);
    return { y: logScale(from, Math.max(to, 10 * from), chart.bottom, chart.top), ticks, end: Math.max(to, 10 * from), most, roofName, roof };
  }
  const highest = highestShown(sorted);
  const ticks = niceTicks(chart.most ?? Math.max(highest, isRoof(highest) ? roof : 0), [bytes, bytesPerSecond].includes(chart.unit));
  const end = ticks[ticks.length - 1];
  const y = (value) => chart.bottom - (chart.bottom - chart.top) * Math.min(value, end) / end;
  return { y, ticks, end, most, roofName, roof };
}

/* A mark at the end of the axis for values beyond it, and what the highest of them is. */
function outliers(chart, values, axis, width) {
  const parts = [];
  let drawn = -Infinity;
  shown.list.forEach((sample, j) => {
    const i = values.findIndex((of) => of[j] !== null && of[j] > axis.end * 1.001);
    const x = chart.x(sample.time);
    if (i < 0 || x < drawn + 7) return;
    drawn = x;
    parts.push(svg("path", { class: `outlier s${i}`, d: `M${(x - 4).toFixed(1)} ${chart.top + 6}h8l-4 -7z` }));
  });
  if (parts.length > 0) { /* on the side without the last mark */
    const isLeft = drawn > (chart.left + width) / 2;
    parts.push(svg("text", { class: "outliers", x: isLeft ? chart.left + 8 : width - chart.right, y: chart.top + 16, "text-anchor": isLeft ? "start" : "end" },
      `\u25b2 up to ${chart.unit(axis.most)}`));
  }
  return parts;
}

function timeTicks(chart, width) {
  const parts = [];
  const seconds = shown.to - shown.from;
  const pixels = (width - chart.left - chart.right) / seconds;
  const every = [1, 2, 5, 10, 15, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200]
    .find((step) => step * pixels >= (step < 60 ? 56 : 40)) ?? 7200; /* there is room between two labels */
  for (let at = Math.ceil(shown.from / every) * every; at <= shown.to; at += every)
    if (chart.x(at) > chart.left + 14 && chart.x(at) < width - (every < 60 ? 28 : 18))
      parts.push(svg("text", { x: chart.x(at), y: CHART_HEIGHT - 6, "text-anchor": "middle" }, every < 60 ? clock(at) : clock(at).slice(0, 5)));
  return parts;
}

function drawChart(chart) {
  const width = Math.max(240, chart.plot.clientWidth || 300);
  Object.assign(chart, { left: 82, right: 10, top: 8, bottom: CHART_HEIGHT - 22 });
  chart.x = (at) => chart.left + (width - chart.left - chart.right) * (at - shown.from) / (shown.to - shown.from);
  const own = chart.series.map(([, value]) => shown.list.map(value));
  const isStack = chart.stacked && !logarithmic;
  const values = isStack ? stack(own) : own;
  const axis = valueAxis(chart, values);
  const { y, ticks, end, roof, roofName } = axis;
  const parts = [];
  for (const tick of ticks) {
    parts.push(svg("path", { class: "grid", d: `M${chart.left} ${y(tick)}H${width - chart.right}` }));
    parts.push(svg("text", { x: chart.left - 5, y: y(tick) + 4, "text-anchor": "end" }, tick === 0 ? "0" : chart.unit(tick)));
  }
  parts.push(...timeTicks(chart, width));
  parts.push(svg("path", { class: "axis", d: `M${chart.left} ${chart.top}V${chart.bottom}H${width - chart.right}` }));
  for (const at of restarts.filter((each) => each >= shown.from && each <= shown.to)) {
    const isLeft = chart.x(at) < width / 2;
    parts.push(svg("path", { class: "restart", d: `M${chart.x(at)} ${chart.top}V${chart.bottom}` }));
    parts.push(svg("text", { x: chart.x(at) + (isLeft ? 4 : -4), y: chart.top + 9, "text-anchor": isLeft ? "start" : "end" }, "restart"));
  }
  if (roof > 0 && roof <= end) {
    parts.push(svg("path", { class: "roof s1", d: `M${chart.left} ${y(roof)}H${width - chart.right}` }));
    parts.push(svg("text", { x: chart.left + 5, y: y(roof) + 13 }, `${roofName}: ${chart.unit(roof)}`));
  }
  values.forEach((of, i) => parts.push(svg("path", isStack ?
    { class: `area s${i}`, d: areaPath(of, values[i - 1] ?? of.map(() => 0), chart.x, y) } :
    { class: `series s${i}`, d: linePath(of, chart.x, y) })));
  parts.push(...outliers(chart, values, axis, width));
  chart.band = svg("rect", { class: "chosen", y: chart.top, height: chart.bottom - chart.top, x: 0, width: 0 });
  chart.cursor = svg("path", { class: "cursor" });
  chart.plot.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
  chart.plot.setAttribute("height", CHART_HEIGHT);
  chart.plot.replaceChildren(...parts, chart.band, chart.cursor);
  drawCursor(chart);
}

/* The samples between two times, with the neighbours beyond, so that the lines go to the edge. Times that the samples
 * of seconds do not reach are shown with those of 15 seconds. */
function samplesBetween(from, to) {
  const first = samples[0].time, newest = hours[hours.length - 1]?.time ?? 0;
  const all = from >= first - 2 || hours.length === 0 ? samples :
    [...hours, ...samples.filter((sample) => sample.time > newest)];
  return all.filter((sample) => sample.time >= from - sample.seconds && sample.time <= to + sample.seconds);
}

function showCharts() {
  if ($("charts").children.length === 0) $("charts").append(...CHARTS.map(makeChart));
  const end = samples[samples.length - 1].time;
  const oldest = range > KEPT_S ? Math.min(samples[0].time, hours[0]?.time ?? Infinity) : samples[0].time;
  const seconds = Math.min(range, Math.max(90, end - oldest)); /* a young daemon fills the charts too */
  const [from, to] = zoom ?? [end - seconds, end];
  shown = { from, to, list: samplesBetween(from, to) };
  $("zoom-out").hidden = zoom === null;
  const long = shown.list[0]?.seconds > 5;
  write($("charts-note"), `${zoom === null ? `The last ${since(seconds)}` : `From ${clock(from)} to ${clock(to)}`}, a point for each ${long ? `${Math.round(shown.list[0].seconds)} seconds` : "second"}. ` +
    "Drag over a chart to see a part of it, and double-click to see all. Point at a chart, or focus it and use the arrow keys, + and -, to read its values.");
  for (const chart of CHARTS) drawChart(chart);
}

function press(buttons, isPressed) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(isPressed(button)));
}

const rangeButtons = RANGES.map(([seconds, text]) => {
  const button = make("button", text);
  button.type = "button";
  button.value = seconds;
  button.addEventListener("click", async () => {
    range = seconds;
    zoom = null;
    press(rangeButtons, (each) => each === button);
    show();
    if (range > KEPT_S) {
      await readHours();
      show();
    }
  });
  return button;
});
$("ranges").append(...rangeButtons);
press(rangeButtons, (button) => Number(button.value) === range);
$("scale").addEventListener("click", () => {
  logarithmic = !logarithmic;
  press([$("scale")], () => logarithmic);
  show();
});
$("zoom-out").addEventListener("click", () => zoomTo(null));
