/* What is wrong now, the strip of figures below, and the tables of what waits and of the devices. */

const RECENT_S = 10;
let figures = null, figuresBefore = null; /* the last two answers of /metrics, {series, at}; null: none */
let deviceList = []; /* the devices of /info */

/* The share of the time in which the devices computed. */
const recentBusy = () => recent(RECENT_S).reduce((sum, sample) => sum + sample.busy * sample.seconds, 0) /
  recent(RECENT_S).reduce((sum, sample) => sum + sample.seconds, 0);
const meanOf = (of, name) => of.reduce((sum, sample) => sum + sample[name], 0) / of.reduce((sum, sample) => sum + sample.seconds, 0);

/* [[state, sentence, section]] of what is wrong, the worst first. The figures of a daemon that does not answer say
 * nothing about now. */
function problems(of, isStale) {
  const last = of[of.length - 1];
  const list = [];
  const add = (state, isSo, sentence, section) => { if (isSo) list.push([state, sentence, section]); };
  const number = (name) => (figures === null ? 0 : value(figures, name));
  const grown = (name) => (figures === null || figuresBefore === null ? 0 : number(name) - value(figuresBefore, name));
  if (isStale) return [["bad", `The daemon has not answered for ${since((Date.now() - heardAt) / 1000)}.`, "over-time"]];
  add("bad", !last.ready && !last.draining, "The daemon is not ready: it refuses work.", "waiting");
  add("bad", number("gemmd_device_stalled") > 0, "A device has work and makes no progress.", "waiting");
  const lost = figures === null ? 0 : [...by(figures, "gemmd_per_device_lost", "device").values()].filter((is) => is > 0).length;
  add("bad", lost > 0, `${lost === 1 ? "A device is" : `${whole(lost)} devices are`} lost.`, "devices-now");
  add("bad", meanOf(of, "failed") > 0, `Requests fail (5xx): ${perSecond(meanOf(of, "failed"))}.`, "requests");
  add("bad", grown("gemmd_device_errors_total") > 0, "A device has reported errors.", "counters");
  add("warn", last.draining, "The daemon shuts down or hands over, and takes no new requests.", "over-time");
  const share = Math.max(...of.map((sample) => sample.queue.share));
  add("warn", meanOf(of, "refused") > 0, `Requests are refused (429): ${perSecond(meanOf(of, "refused"))}.`, "waiting");
  add("warn", share > 0.9, `Accepted requests use ${percent(share)} of the queue's limit.`, "waiting");
  add("warn", meanOf(of, "client_errors") > 0, `Clients send wrong requests (other 4xx): ${perSecond(meanOf(of, "client_errors"))}.`, "requests");
  add("warn", last.memory?.capacity > 0 && last.memory.host > 0.95 * last.memory.capacity,
    `The host uses ${percent(last.memory.host / last.memory.capacity)} of its memory.`, "over-time");
  add("warn", number("gemmd_kernels_left_out") > 0, `${whole(number("gemmd_kernels_left_out"))} kernels failed their test and are not served.`, "counters");
  add("warn", grown("gemmd_log_dropped_lines_total") > 0, "The log loses lines.", "counters");
  return list;
}

function showWrong(of, isStale) {
  const list = problems(of, isStale);
  const worst = list[0]?.[0] ?? "good";
  $("wrong").dataset.state = worst;
  write($("wrong-title"), list.length === 0 ? "Nothing is wrong" : list.length === 1 ? "Wrong now" : `Wrong now: ${whole(list.length)} things`);
  const lines = children($("wrong-list"), list.length, () => {
    const line = document.createElement("li");
    line.append(document.createElement("a"));
    return line;
  });
  list.forEach(([state, sentence, section], i) => {
    lines[i].firstChild.href = `#${section}`;
    lines[i].firstChild.dataset.state = state;
    write(lines[i].firstChild, sentence);
  });
}

/* The strip on top: the last ten seconds. */
function showHealth() {
  const last = samples[samples.length - 1];
  const of = recent(RECENT_S);
  const share = Math.max(...of.map((sample) => sample.queue.share));
  const p99 = quantile(of, 0.99);
  const age = (Date.now() - heardAt) / 1000;
  const stale = age > 4;
  const [refused, wrong, failed] = ["refused", "client_errors", "failed"].map((name) => meanOf(of, name));
  document.body.classList.toggle("stale", stale);
  showWrong(of, stale);
  tiles("health", [
    ["state", stale ? "unknown" : last.draining ? "draining" : last.ready ? "ready" : "not ready",
      stale ? "" : last.draining ? "warn" : last.ready ? "good" : "bad"],
    ["requests refused (429)", perSecond(refused), refused > 0 ? "warn" : ""],
    ["wrong requests (other 4xx)", perSecond(wrong), wrong > 0 ? "warn" : ""],
    ["requests failed (5xx)", perSecond(failed), failed > 0 ? "bad" : ""],
    ["of the queue's limit used", percent(share), share > 0.9 ? "bad" : share > 0.5 ? "warn" : ""],
    ["p99 latency, last 10\u00a0s", p99 === null ? "–" : time(p99)],
    ["age of these figures", age < 2 ? "live" : since(age), stale ? "bad" : ""],
  ]);
}

/* The mean time of a request in a stage over the last minute, in seconds; null: no request was computed. */
function stageMean(name) {
  const of = recent(60).filter((sample) => sample.stages_ms !== undefined);
  const at = stageNames.indexOf(name);
  const requests = of.reduce((sum, sample) => sum + computing.reduce((all, op) => all + sample.requests[op], 0), 0);
  const ms = of.reduce((sum, sample) => sum + Object.values(sample.stages_ms).reduce((all, each) => all + each[at], 0), 0);
  return requests > 0 ? ms / 1000 / requests : null;
}

const onAverage = (name) => (stageMean(name) === null ? "" : ` Over the last minute, ${time(stageMean(name))} a request on average.`);

function showWaiting(now) {
  const waiting = value(now, "gemmd_requests_waiting"), running = value(now, "gemmd_requests_running");
  const travelling = Math.max(0, value(now, "gemmd_queue_requests") - waiting - running);
  const states = by(now, "gemmd_jobs", "state");
  const behind = value(now, "gemmd_device_stalled") > 0 ? "A device has work and makes no progress." :
    running > 0 ? `The ${deviceList.length > 1 ? "devices are" : "device is"} computing others (busy ${percent(recentBusy())} of the last ${RECENT_S} seconds).` :
      "The device is about to take them.";
  rows("waiting-rows", [
    ["for the client or the network", whole(travelling),
      `Bodies that arrive, and answers that are sent.${onAverage("receive")}`],
    ["for the device", whole(waiting), `${waiting > 0 ? behind : "No request waits."}${onAverage("queue")}`],
    ["for the result", whole(running), `The device copies and computes.${onAverage("kernel")}`],
    ["jobs, for the device", whole(states.get("queued") ?? 0), "Clients fetch the results later."],
    ...[...by(now, "gemmd_queue_refused_total", "limit")].filter(([, many]) => many > 0)
      .map(([limit, many]) => [`nothing: refused by ${limit}`, whole(many), "Since the start. The limit was used up, and clients were told to come again later."]),
  ]);
}

/* A row of each device. One device has no series of its own in /metrics: the sums over all are its figures. */
function showDevices(now) {
  const several = deviceList.length > 1;
  rows("device-rows", deviceList.map((device) => {
    const figure = (own, all) => (several ? by(now, own, "device").get(String(device.index)) ?? 0 : value(now, all));
    const spent = (sample) => by(sample, "gemmd_per_device_busy_seconds_total", "device").get(String(device.index)) ?? 0;
    const busy = !several ? recentBusy() : figuresBefore === null ? NaN :
      Math.min(1, Math.max(0, (spent(now) - spent(figuresBefore)) / (now.at - figuresBefore.at)));
    const isLost = several ? figure("gemmd_per_device_lost", "") > 0 : device.lost;
    const gpu = gpuRows(now, device.uuid).filter(([name]) => name === "power" || name === "temperature");
    return [`${device.backend} ${device.index}`, isLost ? "lost" : "computes",
      Number.isFinite(busy) ? { text: percent(busy), share: [busy, 1] } : "–",
      whole(figure("gemmd_per_device_requests_waiting", "gemmd_requests_waiting")),
      whole(figure("gemmd_per_device_requests_running", "gemmd_requests_running")),
      used(figure("gemmd_per_device_memory_used_bytes", "gemmd_device_memory_used_bytes"),
        figure("gemmd_per_device_memory_capacity_bytes", "gemmd_device_memory_capacity_bytes"), bytes),
      used(figure("gemmd_per_device_tensor_used_bytes", "gemmd_tensor_memory_used_bytes"),
        figure("gemmd_per_device_tensor_capacity_bytes", "gemmd_tensor_memory_capacity_bytes"), bytes),
      gpu.map(([, cell]) => cell.text ?? cell).join(", ") || "–", device.name];
  }));
}
