/* When the page asks: a stream of samples all the time, the other documents every few seconds, and
 * nothing while nobody looks. */

const RETRY_MS = 1000, DOCUMENTS_MS = 4000;
let abort = null; /* of the stream; null: there is none */
let lastError = "";
let startedAt = 0; /* when the daemon started */

function showFigures() {
  $("figures").hidden = $("sections").hidden = false;
}

/* Brings the section into view that the address names. The sections are hidden while the browser looks for it, and
 * take their heights when the samples and the documents are shown first. */
const arrived = new Set();
function arrive(part) {
  if (arrived.has(part)) return;
  arrived.add(part);
  if (location.hash !== "") document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function show() {
  if (samples.length === 0) return;
  showFigures();
  showHealth();
  showCharts();
  showStages();
  const last = samples[samples.length - 1];
  if (document.body.classList.contains("stale")) status("bad", lastError || "no answer");
  else if (last.draining) status("warn", "draining");
  else status(last.ready ? "good" : "bad", last.ready ? "ready" : "not ready");
  arrive("samples");
}

function showIdentity() {
  write($("identity"), [...backends,
    ...(document.body.classList.contains("stale") ? [`last answer at ${clock(heardAt / 1000)}`] :
      startedAt > 0 ? [`up ${since(Date.now() / 1000 - startedAt)}`] : []),
    ...(restarts.length > 0 ? [`restarted at ${clock(restarts[restarts.length - 1])}`] : [])].join(", "));
}

async function showDocuments() {
  const now = { series: parse(await (await ask("metrics")).text()), at: Date.now() / 1000 };
  const [kernels, past, jobs] = await Promise.all([askJson("dashboard/kernels"), askJson("dashboard/requests"),
    value(now, "gemmd_jobs_created_total") > 0 ? askJson("jobs?limit=200") : undefined]);
  tensorList = await readTensors();
  if (range > KEPT_S || zoom !== null) await readHours();
  [figuresBefore, figures] = [figures, now];
  backends = [...by(now, "gemmd_build_info", "backend").keys()];
  showFigures();
  showWaiting(now);
  showDevices(now);
  showQueue(now);
  showMemory(now);
  showBatches(now);
  showErrors(now);
  showGpus(now);
  showTensors();
  showJobs(now, jobs);
  if (kernels !== undefined) {
    setTileRoof(kernels.peak);
    showRoofline(kernels);
  }
  if (past !== undefined && JSON.stringify(past) !== JSON.stringify(pastRequests)) {
    pastRequests = past;
    showRequests();
  }
  showTiles();
  showIdentity();
  arrive("documents");
}

function askForToken(why) {
  if (why !== "") write($("ask-why"), why);
  $("ask-why").dataset.state = why === "" ? "" : "bad";
  abort?.abort(); /* ends the other loop, too */
  token = "";
  status("warn", "a token is needed");
  $("figures").hidden = $("sections").hidden = true;
  $("ask").hidden = false;
  $("token").focus();
}

const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));

/* Runs `once` again and again while somebody looks; stops when a token is needed. */
async function repeat(once, pause_ms) {
  while (!document.hidden && $("ask").hidden) {
    try {
      await once();
      lastError = "";
    } catch (error) {
      if (error instanceof TokenNeeded) {
        if ($("ask").hidden) askForToken(error.message);
        return;
      }
      if (error.name !== "AbortError") lastError = error instanceof TypeError ? "no answer" : error.message;
      if (samples.length === 0) status("bad", lastError);
    }
    await sleep(pause_ms);
  }
}

/* Notices by its start that this is another daemon than before. */
function noteStart(at) {
  if (startedAt > 0 && at - startedAt > 1) {
    restarts.push(at);
    hoursAfter = 0; /* the numbers of another daemon */
    figures = figuresBefore = null;
  }
  startedAt = at;
}

/* The documents of a daemon that was just found, its history, and then its events. */
async function follow() {
  const info = await (await ask("info")).json();
  noteStart(Date.now() / 1000 - info.uptime_seconds);
  showInfo(info);
  const newest = await readHistory();
  show();
  showIdentity();
  abort = new AbortController();
  await readEvents(newest, abort.signal, show);
}

let running = null; /* the loops that ask, until both have ended; null: there are none */
function run() {
  running ??= Promise.all([repeat(follow, RETRY_MS), repeat(showDocuments, DOCUMENTS_MS)]).then(() => { running = null; });
}

$("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = $("token").value;
  $("token").value = "";
  await running; /* a loop that has not noticed yet that a token is needed would go on alone */
  token = given;
  $("ask").hidden = true;
  showCode();
  run();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) abort?.abort();
  else if ($("ask").hidden) run();
});
addEventListener("resize", () => {
  show();
  showTiles();
  if (shownKernels !== null) showRoofline(shownKernels);
});
/* The figures of a daemon that says nothing more grow old. */
setInterval(() => {
  if (samples.length > 0 && $("ask").hidden) {
    showHealth();
    if (document.body.classList.contains("stale")) {
      status("bad", lastError || "no answer");
      showIdentity();
    }
  }
}, 1000);
new ResizeObserver(showTiles).observe($("tile-roofline").parentElement);
run();
