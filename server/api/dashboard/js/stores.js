/* Resident tensors and jobs as lists. */

const TENSORS_STEP = 100, JOBS_SHOWN = 200;
let tensorList = null; /* null: not known */
let tensorsShown = TENSORS_STEP;

/* All tensors of the token's tenant, a page of the list after another. */
async function readTensors() {
  const all = [];
  for (let next = ""; next !== null;) {
    const page = await askJson(`tensors?limit=1000${next === "" ? "" : `&after=${encodeURIComponent(next)}`}`);
    if (page === undefined) return null;
    all.push(...page.tensors);
    next = page.next;
  }
  return all;
}

function showTensors() {
  $("tensor-find").hidden = $("tensors-table").hidden = tensorList === null || tensorList.length === 0;
  if (tensorList === null) {
    write($("tensors-note"), "The list of tensors needs a token with the scope tensors.");
    rows("tensors", []);
    return;
  }
  const wanted = $("tensor-filter").value;
  const found = tensorList.filter((tensor) => tensor.name.includes(wanted));
  const memory = tensorList.reduce((sum, tensor) => sum + tensor.memory_bytes, 0);
  write($("tensors-note"), tensorList.length === 0 ? "No tensors are resident." :
    `${whole(tensorList.length)} tensors take ${bytes(memory)}.${wanted === "" ? "" : ` ${whole(found.length)} of them match.`}`);
  rows("tensors", found.slice(0, tensorsShown).map((tensor) =>
    [tensor.name, tensor.dtype, tensor.shape.join("×"), `${bytes(tensor.memory_bytes)}${tensor.evictable ? ", evictable" : ""}`,
      tensor.devices.join(", ")]));
  $("tensors-more").hidden = found.length <= tensorsShown;
}
$("tensor-filter").addEventListener("input", () => { tensorsShown = TENSORS_STEP; showTensors(); });
$("tensors-more").addEventListener("click", () => { tensorsShown += 10 * TENSORS_STEP; showTensors(); });

/* The tenant's jobs, the newest first, and the number of all tenants' jobs by state. */
function showJobs(now, list) {
  const jobs = list?.jobs ?? [];
  const states = [...by(now, "gemmd_jobs", "state")].filter(([, many]) => many > 0);
  write($("jobs-note"), states.length === 0 ? "No jobs are kept." :
    `${states.map(([state, many]) => `${whole(many)} ${state}`).join(", ")}; ${whole(value(now, "gemmd_jobs_created_total"))} since the start.${jobs.some((job) => job.id === undefined) ? " A daemon that requires no tokens lists jobs without their ids." : ""}`);
  $("jobs-table").hidden = jobs.length === 0;
  rows("jobs", jobs.slice(0, JOBS_SHOWN).map((job) =>
    [job.id ?? "–", job.state, job.op, clock(Date.parse(job.created) / 1000), time(job.queued_ms / 1000),
      time((job.running_ms ?? NaN) / 1000), job.bytes === undefined ? "–" : bytes(job.bytes), job.request_id]));
}
