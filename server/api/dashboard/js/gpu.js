/* The figures of the GPUs that NVML gives, as far as there are any. */

function gpuRows(now, gpu) {
  const of = (name, label, wanted) => (now.series.get(name) ?? []).find((one) =>
    one.labels.uuid === gpu && (label === undefined || one.labels[label] === wanted))?.value;
  const pair = (used, most, unit) => (used === undefined ? undefined :
    most === undefined ? unit(used) : { text: `${unit(used)} of ${unit(most)}`, share: [used, most] });
  const hertz = (number) => scaled(number, 1000, ["Hz", "kHz", "MHz", "GHz"]);
  const watts = (number) => `${whole(number)} W`;
  const list = [
    ["SM clock", pair(of("gemmd_gpu_clock_hertz", "clock", "sm"), of("gemmd_gpu_clock_max_hertz", "clock", "sm"), hertz)],
    ["memory clock", pair(of("gemmd_gpu_clock_hertz", "clock", "memory"), of("gemmd_gpu_clock_max_hertz", "clock", "memory"), hertz)],
    ["power", pair(of("gemmd_gpu_power_watts"), of("gemmd_gpu_power_limit_watts"), watts)],
    ["temperature", pair(of("gemmd_gpu_temperature_celsius"), undefined, (number) => `${whole(number)} °C`)],
    ["a kernel runs", pair(of("gemmd_gpu_utilization_ratio"), 1, percent)],
    ["memory of all processes", pair(of("gemmd_gpu_memory_used_bytes"), of("gemmd_gpu_memory_capacity_bytes"), bytes)],
  ];
  return list.filter(([, cell]) => cell !== undefined);
}

function showGpus(now) {
  const names = new Set([...now.series].filter(([name]) => name.startsWith("gemmd_gpu_"))
    .flatMap(([, list]) => list.map((one) => one.labels.uuid)).filter((gpu) => gpu !== undefined));
  $("gpu-none").hidden = names.size > 0 || isCpu();
  write($("gpu-title"), isCpu() ? "Memory" : "Memory and GPU");
  $("gpus").replaceChildren(...[...names].map((gpu) => {
    const table = make("table");
    const body = make("tbody");
    body.id = `gpu-${gpu}`;
    table.append(make("caption", gpu), body);
    return table;
  }));
  for (const gpu of names) rows(`gpu-${gpu}`, gpuRows(now, gpu));
}
