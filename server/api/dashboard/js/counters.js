/* The tables of counters since the start, from /metrics and /info.
 *
 * A test compares every name in here with what a daemon says: metrics stand in double quotes, a
 * label behind its metric ("metric", "label"), and members of /info are written as in info.version,
 * device.name and kernel.op. */

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

const total = (histogram) => histogram.reduce((sum, bucket) => sum + bucket.count, 0);

const used = (in_use, capacity, unit) => ({
  text: capacity > 0 ? `${unit(in_use)} of ${unit(capacity)}` : unit(in_use),
  of: [in_use, capacity],
});

function showQueue(now) {
  rows("queue", [
    ["waiting for the device", whole(value(now, "gemmd_requests_waiting"))],
    ["on the device", whole(value(now, "gemmd_requests_running"))],
    ["accepted, not yet answered", used(value(now, "gemmd_queue_requests"), value(now, "gemmd_queue_capacity_requests"), whole)],
    ["bytes of accepted requests", used(value(now, "gemmd_queue_bytes"), value(now, "gemmd_queue_capacity_bytes"), bytes)],
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
    ["device, for accepted requests", used(value(now, "gemmd_device_memory_used_bytes"), value(now, "gemmd_device_memory_capacity_bytes"), bytes)],
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
    `${whole(launches)} launches since the start, ${(value(now, "gemmd_batch_size_sum") / launches).toPrecision(3)} requests to a launch on average.`);
  let from = 1;
  const table = [];
  for (const bucket of histogram) {
    const range = bucket.up_to === from ? whole(from) :
      bucket.up_to === Infinity ? `${whole(from)} and more` : `${whole(from)} to ${whole(bucket.up_to)}`;
    if (bucket.count > 0) table.push([range, { text: whole(bucket.count), share: [bucket.count, launches] }]);
    from = bucket.up_to + 1;
  }
  $("batches").parentElement.hidden = launches === 0;
  rows("batches", table);
}

function showErrors(now) {
  const counts = (name, label, wanted) => [...by(now, name, label)]
    .filter(([each, many]) => many > 0 && wanted(each)).map(([each, many]) => [each, whole(many)]);
  const none = (table) => (table.length > 0 ? table : [["none", "0"]]);
  const others = [
    ["client disconnected", value(now, "gemmd_client_gone_total")],
    ["device error", value(now, "gemmd_device_errors_total")],
    ["log line dropped", value(now, "gemmd_log_dropped_lines_total")],
  ].filter(([, many]) => many > 0).map(([name, many]) => [name, whole(many)]);
  rows("errors", none(counts("gemmd_requests_total", "code", (code) => Number(code) >= 400)
    .sort(([one], [other]) => Number(one) - Number(other))));
  rows("reasons", none([...counts("gemmd_rejected_total", "reason", () => true), ...others]));
}

function showInfo(info) {
  document.title = `gemmd on ${location.host}`;
  write($("version"), `${info.version} (${info.build.revision})`);
  const devices = [];
  deviceList = info.devices;
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
