/* The charts over time, which share their pointer: own SVG, with axes and the values at a time. */

const CHART_HEIGHT = 190;
let cursorAt = null; /* the time that is pointed at; null: none */
let shownSeconds = KEPT_S; /* how much time the charts show: a young daemon fills them too */
let peakFlops = 0; /* the greatest peak of all devices together; 0: not known */

const CHARTS = [
  { title: "Requests by operation", unit: perSecond,
    get series() { return computing.map((op) => [op, (sample) => sample.requests[op] / sample.seconds]); } },
  { title: "Latency", unit: time, series: [
    ["p50", (sample) => quantile([sample], 0.5)],
    ["p99", (sample) => quantile([sample], 0.99)]] },
  { title: "Waiting for the device", unit: (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 }), series: [
    ["mean", (sample) => sample.queue.mean],
    ["max", (sample) => sample.queue.max]] },
  { title: "Device busy", unit: percent, most: 1, series: [["busy", (sample) => sample.busy]] },
  { title: "Arithmetic", unit: flops, series: [["computed", (sample) => sample.flops / sample.seconds]],
    peak: () => peakFlops },
  { title: "Errors by status", unit: perSecond, series: [
    ["4xx", (sample) => sample.client_errors / sample.seconds],
    ["429", (sample) => sample.refused / sample.seconds],
    ["5xx", (sample) => sample.failed / sample.seconds]] },
];

function makeChart(chart) {
  const figure = make("figure");
  const caption = make("figcaption");
  chart.heading = make("b", chart.title);
  caption.append(chart.heading, ...chart.series.map((_, i) => make("span", "", `s${i}`)));
  const plot = svg("svg", { class: "plot", tabindex: 0, role: "img", "aria-label": chart.title });
  figure.append(caption, plot);
  chart.plot = plot;
  chart.values = [...caption.querySelectorAll("span")];
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const share = (event.clientX - box.left - chart.left) / (box.width - chart.left - chart.right);
    pointAt(samples[samples.length - 1].time - shownSeconds * (1 - Math.min(1, Math.max(0, share))));
  });
  plot.addEventListener("pointerleave", () => pointAt(null));
  plot.addEventListener("blur", () => {
    caption.removeAttribute("aria-live");
    pointAt(null);
  });
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") {
      caption.removeAttribute("aria-live");
      pointAt(null);
    }
    if (steps === undefined || samples.length === 0) return;
    event.preventDefault();
    caption.setAttribute("aria-live", "polite"); /* not while the newest values change each second */
    caption.setAttribute("aria-atomic", "true");
    const from = cursorAt === null ? samples.length - 1 : samples.indexOf(nearest(cursorAt));
    pointAt(samples[Math.min(samples.length - 1, Math.max(0, from + steps))].time);
  });
  return figure;
}

function nearest(at) {
  return samples.reduce((best, sample) => (Math.abs(sample.time - at) < Math.abs(best.time - at) ? sample : best));
}

function pointAt(at) {
  cursorAt = at;
  for (const chart of CHARTS) drawCursor(chart);
}

/* The values at the pointer, or the newest ones. */
function drawCursor(chart) {
  if (samples.length === 0 || chart.x === undefined) return;
  const sample = cursorAt === null ? samples[samples.length - 1] : nearest(cursorAt);
  chart.series.forEach(([name, value], i) => {
    const now = value(sample);
    write(chart.values[i], `${name}: ${now === null ? "–" : chart.unit(now)}`);
  });
  write(chart.heading, cursorAt === null ? chart.title : `${chart.title} at ${clock(sample.time)}`);
  chart.cursor.setAttribute("visibility", cursorAt === null ? "hidden" : "visible");
  chart.cursor.setAttribute("d", `M${chart.x(sample.time).toFixed(1)} ${chart.top}V${chart.bottom}`);
}

/* A line through the values; a gap where a value or a sample is missing. */
function linePath(value, x, y) {
  let path = "", before = null;
  for (const sample of samples) {
    const now = value(sample);
    if (now === null) { before = null; continue; }
    const at = `${x(sample.time).toFixed(1)} ${y(now).toFixed(1)}`;
    path += before !== null && sample.time - before < 3.5 ? `L${at}` : `M${at}h0.8`;
    before = sample.time;
  }
  return path;
}

function drawChart(chart) {
  const width = Math.max(240, chart.plot.clientWidth || 300);
  const end = samples[samples.length - 1].time;
  const peak = chart.peak?.() ?? 0;
  const highest = samples.reduce((most, sample) =>
    chart.series.reduce((high, [, value]) => Math.max(high, value(sample) ?? 0), most), 0);
  const most = chart.most ?? Math.max(highest, highest > peak / 20 ? peak : 0);
  const ticks = niceTicks(most);
  Object.assign(chart, { left: 82, right: 10, top: 8, bottom: CHART_HEIGHT - 22 });
  chart.x = (at) => chart.left + (width - chart.left - chart.right) * (1 - (end - at) / shownSeconds);
  const y = (value) => chart.bottom - (chart.bottom - chart.top) * value / ticks[ticks.length - 1];
  const parts = [];
  for (const tick of ticks) {
    parts.push(svg("path", { class: "grid", d: `M${chart.left} ${y(tick)}H${width - chart.right}` }));
    parts.push(svg("text", { x: chart.left - 5, y: y(tick) + 4, "text-anchor": "end" }, tick === 0 ? "0" : chart.unit(tick)));
  }
  const wanted = width < 420 ? 3 : 6;
  const every = [30, 60, 120, 180, 300].find((step) => shownSeconds / step <= wanted) ?? 300;
  for (let at = Math.ceil((end - shownSeconds) / every) * every; at <= end; at += every)
    if (chart.x(at) > chart.left + 14 && chart.x(at) < width - (every < 60 ? 28 : 18))
      parts.push(svg("text", { x: chart.x(at), y: CHART_HEIGHT - 6, "text-anchor": "middle" }, every < 60 ? clock(at) : clock(at).slice(0, 5)));
  parts.push(svg("path", { class: "axis", d: `M${chart.left} ${chart.top}V${chart.bottom}H${width - chart.right}` }));
  for (const at of restarts) {
    const isLeft = chart.x(at) < width / 2;
    parts.push(svg("path", { class: "restart", d: `M${chart.x(at)} ${chart.top}V${chart.bottom}` }));
    parts.push(svg("text", { x: chart.x(at) + (isLeft ? 4 : -4), y: chart.top + 9, "text-anchor": isLeft ? "start" : "end" }, "restart"));
  }
  if (peak > 0 && peak <= ticks[ticks.length - 1]) {
    parts.push(svg("path", { class: "roof s1", d: `M${chart.left} ${y(peak)}H${width - chart.right}` }));
    parts.push(svg("text", { x: chart.left + 5, y: y(peak) + 13 }, `peak: ${flops(peak)}`));
  }
  chart.series.forEach(([, value], i) => parts.push(svg("path", { class: `series s${i}`, d: linePath(value, chart.x, y) })));
  chart.cursor = svg("path", { class: "cursor" });
  chart.plot.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
  chart.plot.setAttribute("height", CHART_HEIGHT);
  chart.plot.replaceChildren(...parts, chart.cursor);
  drawCursor(chart);
}

function showCharts() {
  if ($("charts").children.length === 0) $("charts").append(...CHARTS.map(makeChart));
  shownSeconds = Math.min(KEPT_S, Math.max(90, samples[samples.length - 1].time - samples[0].time));
  for (const chart of CHARTS) drawChart(chart);
}

/* The strip on top: the last ten seconds. */
function showHealth() {
  const last = samples[samples.length - 1];
  const of = recent(10);
  const seconds = of.reduce((sum, sample) => sum + sample.seconds, 0);
  const rate = (name) => of.reduce((sum, sample) => sum + sample[name], 0) / seconds;
  const share = Math.max(...of.map((sample) => sample.queue.share));
  const p99 = quantile(of, 0.99);
  const age = (Date.now() - heardAt) / 1000;
  const stale = age > 4;
  document.body.classList.toggle("stale", stale);
  tiles("health", [
    ["state", stale ? "unknown" : last.draining ? "draining" : last.ready ? "ready" : "not ready",
      stale ? "" : last.draining ? "warn" : last.ready ? "good" : "bad"],
    ["requests refused (429)", perSecond(rate("refused")), rate("refused") > 0 ? "warn" : ""],
    ["wrong requests (other 4xx)", perSecond(rate("client_errors")), rate("client_errors") > 0 ? "warn" : ""],
    ["requests failed (5xx)", perSecond(rate("failed")), rate("failed") > 0 ? "bad" : ""],
    ["of the queue's limit used", percent(share), share > 0.9 ? "bad" : share > 0.5 ? "warn" : ""],
    ["p99 latency, last 10\u00a0s", p99 === null ? "–" : time(p99)],
    ["age of these figures", age < 2 ? "live" : since(age), stale ? "bad" : ""],
  ]);
}
