"use strict";
/* Asks /metrics every other second and /info once for each start of the daemon, and shows them.
 *
 * A test holds every name in here against what a daemon says: metrics stand in double quotes, a
 * label behind its metric ("metric", "label"), and members of /info are written as in info.version,
 * device.name and kernel.op. */

const PERIOD_MS = 2000;
const WINDOW_S = 60; /* of what is said "per second" and of latencies */
const TRACE_S = 300;
const COMPUTING = ["gemm", "attention", "infer"];

const $ = (id) => document.getElementById(id);
let token = ""; /* here and nowhere else */
let samples = []; /* oldest first, no more than the trace shows */
let started = null; /* the start of the daemon that `samples` and /info are of */

/* --- What the daemon says --- */

/* Metrics as text -> Map of name -> [{labels, value}]. */
function parse(text) {
  const series = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (match === null) continue;
    const labels = {};
    for (const [, name, escaped] of (match[2] ?? "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g))
      labels[name] = escaped.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    if (!series.has(match[1])) series.set(match[1], []);
    series.get(match[1]).push({ labels, value: Number(match[3].replace("+Inf", "Infinity")) });
  }
  return series;
}

/* The sum of all series of a name. */
function value(sample, name) {
  return (sample.series.get(name) ?? []).reduce((sum, one) => sum + one.value, 0);
}

/* The same, apart for each value of a label. */
function by(sample, name, label) {
  const sums = new Map();
  for (const one of sample.series.get(name) ?? [])
    sums.set(one.labels[label], (sums.get(one.labels[label]) ?? 0) + one.value);
  return sums;
}

/* A histogram, for each value of a label, or in all: [{up_to, count}], each bucket's own count. */
function buckets(sample, name, label) {
  const histograms = new Map();
  for (const one of sample.series.get(`${name}_bucket`) ?? []) {
    const key = label === undefined ? "" : one.labels[label];
    if (!histograms.has(key)) histograms.set(key, []);
    const before = histograms.get(key).reduce((sum, bucket) => sum + bucket.count, 0);
    const up_to = one.labels.le === "+Inf" ? Infinity : Number(one.labels.le);
    histograms.get(key).push({ up_to, count: one.value - before });
  }
  return histograms;
}

function minus(now, before) {
  return now.map((bucket, i) => ({ up_to: bucket.up_to, count: bucket.count - (before?.[i]?.count ?? 0) }));
}

const total = (histogram) => histogram.reduce((sum, bucket) => sum + bucket.count, 0);


/* --- How it is written --- */

function scaled(number, step, units, digits = 3) {
  let i = 0;
  while (Math.abs(number) >= step && i < units.length - 1) {
    number /= step;
    i++;
  }
  return `${number.toLocaleString("en", { maximumSignificantDigits: digits })}\u00a0${units[i]}`.trim();
}
const whole = (number) => Math.round(number).toLocaleString("en");
const bytes = (number) => scaled(number, 1024, ["B", "KiB", "MiB", "GiB", "TiB"], 4);
const perSecond = (number) => scaled(number, 1e9, [""], number < 1 ? 2 : 4);
const time = (s) => (Number.isFinite(s) ? scaled(s * 1e6, 1000, ["µs", "ms", "s"]) : "–");

/* What the share of all stays within: between the bounds of its bucket in proportion, or no more
 * than is known of the first and the last. */
function quantile(histogram, share) {
  let left = total(histogram) * share;
  let from = 0;
  for (const { up_to, count } of histogram) {
    if (count > 0 && count >= left) {
      if (from === 0) return `< ${time(up_to)}`;
      return up_to === Infinity ? `> ${time(from)}` : time(from + (up_to - from) * (left / count));
    }
    left -= count;
    from = up_to;
  }
  return "–";
}

function since(s) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, parts.findIndex(([unit]) => s >= unit));
  return parts.slice(first, first + 2).map(([unit, name], i) =>
    `${Math.floor((i === 0 ? s : s % parts[first][0]) / unit)} ${name}`).join(" ");
}

/* --- Where it is written --- */

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* As many children as are wanted, old ones kept: what somebody reads or selects stays in place. */
function children(parent, count, make) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(make());
  return parent.children;
}

/* Rows of text, the first of each its header. {text, of: [used, capacity]} has a meter below it that
 * turns when little is left; {text, share: [part, whole]} one that does not. */
function rows(id, table) {
  const lines = children($(id), table.length, () => document.createElement("tr"));
  table.forEach((cells, i) => {
    const line = lines[i];
    cells.forEach((cell, j) => {
      if (line.children.length <= j) {
        const made = document.createElement(j === 0 ? "th" : "td");
        if (j === 0) made.scope = "row";
        line.append(made);
      }
      const { text, of, share } = typeof cell === "string" ? { text: cell } : cell;
      const [part, most] = of ?? share ?? [0, 0];
      const at = line.children[j];
      let meter = at.querySelector("meter");
      if (meter === null) write(at, text);
      else write(at.firstChild, text);
      if (!(most > 0)) {
        meter?.remove();
        return;
      }
      if (meter === null) {
        meter = document.createElement("meter");
        meter.setAttribute("aria-hidden", "true"); /* the text says it */
        at.append(meter);
      }
      meter.max = most;
      meter.value = part;
      if (of !== undefined) [meter.low, meter.high, meter.optimum] = [most * 0.75, most * 0.95, 0];
    });
    while (line.children.length > cells.length) line.lastElementChild.remove();
  });
}

function tiles(id, list) {
  const made = children($(id), list.length, () => {
    const tile = document.createElement("div");
    tile.append(document.createElement("dt"), document.createElement("dd"));
    return tile;
  });
  list.forEach(([name, text], i) => {
    write(made[i].children[0], name);
    write(made[i].children[1], text);
  });
}

function status(state, text) {
  $("status").dataset.state = state;
  write($("status"), text);
}

/* --- What is shown --- */

const used = (in_use, capacity, unit) => ({
  text: capacity > 0 ? `${unit(in_use)} of ${unit(capacity)}` : unit(in_use),
  of: [in_use, capacity],
});

function computed(sample) {
  const of = by(sample, "gemmd_requests_total", "op");
  return COMPUTING.reduce((sum, op) => sum + (of.get(op) ?? 0), 0);
}

function showNow(now, before) {
  const seconds = now.at - before.at;
  const rate = (name) => (seconds > 0 ? (value(now, name) - value(before, name)) / seconds : 0);
  tiles("now", [
    ["requests computed per second", perSecond(seconds > 0 ? (computed(now) - computed(before)) / seconds : 0)],
    ["received per second", bytes(rate("gemmd_request_bytes_total"))],
    ["sent per second", bytes(rate("gemmd_response_bytes_total"))],
    ["device busy", `${whole(100 * Math.min(1, rate("gemmd_device_busy_seconds_total")))} %`],
    ["operations per second", scaled(rate("gemmd_flops_total"), 1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"])],
    ["processor time per second", time(rate("process_cpu_seconds_total"))],
    ["connections", `${whole(value(now, "gemmd_connections"))} of ${whole(value(now, "gemmd_connections_capacity"))}`],
    ["resident memory of the process", bytes(value(now, "process_resident_memory_bytes"))],
  ]);
}

function showTrace() {
  const points = [];
  for (let i = 1; i < samples.length; i++) {
    const [from, to] = [samples[i - 1], samples[i]];
    points.push({ at: to.at, rate: (computed(to) - computed(from)) / (to.at - from.at) });
  }
  const most = points.reduce((high, point) => Math.max(high, point.rate), 0);
  const end = samples[samples.length - 1].at;
  $("trace").querySelector("polyline").setAttribute("points", points.map((point) =>
    `${(300 * (1 - (end - point.at) / TRACE_S)).toFixed(1)},${(58 - 56 * (most > 0 ? point.rate / most : 0)).toFixed(1)}`).join(" "));
  write($("trace-says"), `Requests computed per second, last ${TRACE_S / 60} minutes; at most ${perSecond(most)}`);
}

function latencies(name, label, now, before, wanted) {
  const [sums, earlier] = [by(now, `${name}_sum`, label), by(before, `${name}_sum`, label)];
  const old = buckets(before, name, label);
  const table = [];
  for (const [key, histogram] of buckets(now, name, label)) {
    if (!wanted(key)) continue;
    const recent = minus(histogram, now === before ? undefined : old.get(key));
    const count = total(recent);
    const spent = sums.get(key) - (now === before ? 0 : earlier.get(key) ?? 0);
    table.push([
      key,
      now === before ? "–" : perSecond(count / (now.at - before.at)),
      time(spent / count),
      ...[0.5, 0.9, 0.99].map((share) => quantile(recent, share)),
    ]);
  }
  return table;
}

function showLatency(now, before) {
  write($("latency-window"), now === before
    ? "Since the start of the daemon, until the next look."
    : `Of the last ${whole(now.at - before.at)} s. Whole requests by operation, then the stages of those that compute; quantiles are read off the histograms' buckets.`);
  rows("operations", latencies("gemmd_request_duration_seconds", "op", now, before, (op) => op !== "other"));
  rows("stages", latencies("gemmd_stage_duration_seconds", "stage", now, before, () => true));
}

function showQueue(now) {
  rows("queue", [
    ["waiting for the device", whole(value(now, "gemmd_requests_waiting"))],
    ["on the device", whole(value(now, "gemmd_requests_running"))],
    ["accepted and not over", used(value(now, "gemmd_queue_requests"), value(now, "gemmd_queue_capacity_requests"), whole)],
    ["bytes of these", used(value(now, "gemmd_queue_bytes"), value(now, "gemmd_queue_capacity_bytes"), bytes)],
    ...[...by(now, "gemmd_queue_refused_total", "limit")].filter(([, count]) => count > 0)
      .map(([limit, count]) => [`refused: ${limit}`, whole(count)]),
  ]);
  const held = by(now, "gemmd_tenant_bytes", "tenant");
  const tenants = [...by(now, "gemmd_tenant_requests", "tenant")];
  $("tenants-table").hidden = tenants.length === 0;
  rows("tenants", tenants.map(([name, count]) => [name, whole(count), bytes(held.get(name) ?? 0)]));
}

function showMemory(now) {
  rows("memory", [
    ["device", used(value(now, "gemmd_device_memory_used_bytes"), value(now, "gemmd_device_memory_capacity_bytes"), bytes)],
    ["pinned, for bodies and results", used(value(now, "gemmd_pinned_memory_used_bytes"), value(now, "gemmd_pinned_memory_capacity_bytes"), bytes)],
    ["resident tensors", used(value(now, "gemmd_tensor_memory_used_bytes"), value(now, "gemmd_tensor_memory_capacity_bytes"), bytes)],
    ["results of jobs", used(value(now, "gemmd_job_bytes"), value(now, "gemmd_job_capacity_bytes"), bytes)],
    ["shared by clients", used(value(now, "gemmd_shared_memory_used_bytes"), value(now, "gemmd_shared_memory_capacity_bytes"), bytes)],
  ]);
}

function showBatches(now) {
  const histogram = buckets(now, "gemmd_batch_size").get("") ?? [];
  const launches = total(histogram);
  write($("batch-mean"), launches === 0 ? "Nothing was launched yet." :
    `${whole(launches)} launches since the start, ${perSecond(value(now, "gemmd_batch_size_sum") / launches)} requests to a launch on average.`);
  let from = 1;
  const table = [];
  for (const bucket of histogram) {
    const range = bucket.up_to === from ? whole(from) :
      bucket.up_to === Infinity ? `${whole(from)} and more` : `${whole(from)} to ${whole(bucket.up_to)}`;
    if (bucket.count > 0) table.push([range, { text: whole(bucket.count), share: [bucket.count, launches] }]);
    from = bucket.up_to + 1;
  }
  rows("batches", table);
}

function showErrors(now, before) {
  const counts = (name, label, wanted) => {
    const earlier = by(before, name, label);
    return [...by(now, name, label)].filter(([key, count]) => count > 0 && wanted(key)).map(([key, count]) =>
      [key, whole(count - (earlier.get(key) ?? 0)), whole(count)]);
  };
  const none = (table) => (table.length > 0 ? table : [["none", "0", "0"]]);
  const others = [
    ["client gone", value(before, "gemmd_client_gone_total"), value(now, "gemmd_client_gone_total")],
    ["device error", value(before, "gemmd_device_errors_total"), value(now, "gemmd_device_errors_total")],
    ["log line dropped", value(before, "gemmd_log_dropped_lines_total"), value(now, "gemmd_log_dropped_lines_total")],
  ].filter(([, , count]) => count > 0).map(([name, earlier, count]) => [name, whole(count - earlier), whole(count)]);
  rows("errors", none(counts("gemmd_requests_total", "code", (code) => Number(code) >= 400)));
  rows("reasons", none([...counts("gemmd_rejected_total", "reason", () => true), ...others]));
}

function showTensorsAndJobs(now) {
  rows("tensors", [
    ["names", whole(value(now, "gemmd_tensor_names"))],
    ["operands that were resident", whole(value(now, "gemmd_tensor_hits_total"))],
    ["names that no tensor had", whole(value(now, "gemmd_tensor_misses_total"))],
    ["evicted", whole(value(now, "gemmd_tensor_evictions_total"))],
  ]);
  const states = [...by(now, "gemmd_jobs", "state")];
  rows("jobs", [
    ["kept", used(states.reduce((sum, [, count]) => sum + count, 0), value(now, "gemmd_jobs_capacity"), whole)],
    ...states.map(([state, count]) => [state, whole(count)]),
    ["accepted since the start", whole(value(now, "gemmd_jobs_created_total"))],
    ["expired since the start", whole(value(now, "gemmd_jobs_expired_total"))],
  ]);
}

function showInfo(info) {
  document.title = `gemmd on ${location.host}`;
  write($("version"), `${info.version} (${info.build.revision})`);
  const devices = [];
  for (const device of info.devices)
    devices.push([`${device.backend} ${device.index}`, device.name, device.arch, device.driver || "–",
      bytes(device.memory_total_bytes), bytes(device.memory_capacity_bytes)]);
  rows("devices", devices);
  write($("library"), `${info.build.library}; libmicrohttpd ${info.build.libmicrohttpd}; choice of kernels: version ${info.select_version}`);
  const kernels = [];
  for (const kernel of info.kernels)
    kernels.push([kernel.name, kernel.op, Object.keys(kernel.dtypes).join(" "), kernel.description]);
  rows("kernels", kernels);
  rows("limits", Object.entries(info.limits).map(([name, limit]) => [`--${name}`, String(limit)]));
}

function showCurl() {
  const authorization = token === "" ? "" : " -H \"Authorization: Bearer $GEMMD_TOKEN\"";
  const base = new URL(".", location.href).href;
  write($("curl"), [
    `curl -sS${authorization} ${base}readyz`,
    `head -c 32 /dev/zero | curl -sS --fail-with-body${authorization} --data-binary @- '${base}gemm?m=2&n=2&k=2' | od -An -w8 -t f4`,
    `curl -sS${authorization} ${base}metrics`,
  ].join("\n"));
}

/* The last sample, or the first of the window that ends with it. */
function windowStart() {
  const end = samples[samples.length - 1].at;
  return samples.find((sample) => end - sample.at <= WINDOW_S);
}

async function showStatus(now) {
  const uptime = now.at - value(now, "process_start_time_seconds");
  write($("identity"), [
    ...by(now, "gemmd_build_info", "backend").keys(), `up ${since(uptime)}`].join(", "));
  if (value(now, "gemmd_draining") > 0) status("warn", "draining");
  else if (value(now, "gemmd_ready") > 0) status("good", "ready");
  else {
    const problem = await (await fetch("readyz", { cache: "no-store" })).json();
    status("bad", problem.ready ? "ready" : `not ready: ${problem.detail}`);
  }
}

async function show() {
  const now = samples[samples.length - 1];
  const before = windowStart();
  showNow(now, before);
  showTrace();
  showLatency(now, before);
  showQueue(now);
  showMemory(now);
  showBatches(now);
  showErrors(now, before);
  showTensorsAndJobs(now);
  showCurl();
  $("figures").hidden = false;
  await showStatus(now);
}

/* --- When --- */

class TokenNeeded extends Error {}

async function ask(path) {
  const headers = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit" });
  if (answer.status === 401 || answer.status === 403) throw new TokenNeeded();
  if (!answer.ok) throw new Error(`/${path} answers ${answer.status}`);
  return answer;
}

async function look() {
  const sample = { series: parse(await (await ask("metrics")).text()), at: Date.now() / 1000 };
  const start = value(sample, "process_start_time_seconds");
  if (start !== started) {
    showInfo(await (await ask("info")).json());
    samples = [];
    started = start;
  }
  samples.push(sample);
  samples = samples.filter((old) => sample.at - old.at <= TRACE_S);
  await show();
}

function askForToken() {
  if (token !== "") write($("ask-why"), "The daemon does not know that token.");
  token = "";
  status("warn", "a token is needed");
  $("figures").hidden = true;
  $("ask").hidden = false;
  $("token").focus();
}

/* One look after another, none while nobody looks. */
let running = false;
async function run() {
  if (running) return;
  running = true;
  while (!document.hidden) {
    try {
      await look();
    } catch (error) {
      if (error instanceof TokenNeeded) {
        askForToken();
        break;
      }
      status("bad", error instanceof TypeError ? "no answer" : error.message);
    }
    await new Promise((wake) => setTimeout(wake, PERIOD_MS));
  }
  running = false;
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  $("token").value = "";
  $("ask").hidden = true;
  run();
});
document.addEventListener("visibilitychange", () => {
  if ($("ask").hidden) run();
});
run();
