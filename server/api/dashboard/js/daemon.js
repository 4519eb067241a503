/* What the daemon says: its samples, live, of the last 15 minutes and of the last 6 hours, and its other documents. */

const KEPT_S = 900, HOURS_S = 21600, HOURS_STEP_S = 15;
let token = ""; /* here and nowhere else */
let samples = []; /* oldest first; all of KEPT_S seconds */
let hours = []; /* the same of HOURS_S seconds, one for each HOURS_STEP_S seconds; read while they are shown */
let hoursAfter = 0; /* the number of the newest of them that this daemon has sent */
let computing = []; /* the kinds of requests that compute: the operations, and infer */
let restarts = []; /* times at which the page noticed a new daemon */
let bounds = []; /* of the buckets of sample.latency, in seconds */
let stageNames = [];
let heardAt = 0; /* when the newest sample came, by this machine's clock, in milliseconds */

class TokenNeeded extends Error {}

async function ask(path, options = {}) {
  const headers = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { cache: "no-store", credentials: "omit", ...options,
    headers: { ...headers, ...options.headers } });
  if (answer.status === 401) throw new TokenNeeded(token === "" ? "" : "The daemon does not know this token.");
  if (answer.status === 403) throw new TokenNeeded("The token lacks the scope metrics.");
  return answer;
}

/* The parsed document at a path; undefined if this daemon or this token has none. */
async function askJson(path) {
  const headers = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit" });
  return answer.ok ? answer.json() : undefined;
}

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

/* Adds samples that are newer than those there are, which may be of a daemon before. */
function addSamples(added) {
  for (const sample of added) {
    const last = samples[samples.length - 1];
    if (last !== undefined && sample.time <= last.time) continue;
    samples.push(sample);
  }
  if (samples.length === 0) return;
  if (computing.length === 0)
    computing = Object.keys(samples[0].requests).filter((op) => op !== "tensor" && op !== "other");
  const end = samples[samples.length - 1].time;
  samples = samples.filter((sample) => end - sample.time <= KEPT_S);
  restarts = restarts.filter((at) => end - at <= HOURS_S);
  if (added.length > 0) heardAt = Date.now();
}

async function readHistory() {
  const answer = await ask("dashboard/history");
  if (!answer.ok) throw new Error(`/dashboard/history answers ${answer.status}`);
  const history = await answer.json();
  bounds = history.latency_bounds;
  stageNames = history.stages;
  addSamples(history.samples);
  return history.samples.length > 0 ? history.samples[history.samples.length - 1].number : 0;
}

/* Reads the samples of 15 seconds that are new; a daemon that was just found is asked for all. */
async function readHours() {
  const history = await askJson(`dashboard/history?step=${HOURS_STEP_S}&after=${hoursAfter}`);
  for (const sample of history?.samples ?? []) {
    hoursAfter = Math.max(hoursAfter, sample.number);
    if (hours.length === 0 || sample.time > hours[hours.length - 1].time) hours.push(sample);
  }
  const end = hours[hours.length - 1]?.time ?? 0;
  hours = hours.filter((sample) => end - sample.time <= HOURS_S);
}

/* Calls `heard` after each event, until the stream ends or `abort` is signalled. */
async function readEvents(after, abort, heard) {
  const answer = await ask(`dashboard/events?after=${after}`, { signal: abort });
  if (!answer.ok) throw new Error(`/dashboard/events answers ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    const data = events.map((event) => /^data: (.*)$/m.exec(event)).filter((match) => match !== null);
    addSamples(data.map((match) => JSON.parse(match[1])));
    if (data.length > 0) heard();
  }
}

/* The samples of the last `seconds`. */
function recent(seconds) {
  if (samples.length === 0) return [];
  const end = samples[samples.length - 1].time;
  return samples.filter((sample) => end - sample.time < seconds);
}

/* In seconds, what the share of requests stays within: in proportion between the bounds of its
 * bucket. null: there were none. */
function quantile(of, share) {
  const counts = new Array(bounds.length + 1).fill(0);
  for (const sample of of) (sample.latency ?? []).forEach((each, i) => { counts[i] += each; });
  const all = counts.reduce((sum, each) => sum + each, 0);
  if (all === 0) return null;
  let left = all * share;
  for (let i = 0; i < counts.length; i++) {
    const from = i === 0 ? 0 : bounds[i - 1];
    if (counts[i] > 0 && counts[i] >= left)
      return i === bounds.length ? from : from + (bounds[i] - from) * (left / counts[i]);
    left -= counts[i];
  }
  return bounds[bounds.length - 1];
}
