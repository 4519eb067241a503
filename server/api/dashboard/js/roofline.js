/* The roofline: the device's roofs by type, and a point for each kernel, type and class of shape. */

const DTYPE_COLORS = ["f32", "f16", "bf16", "f64", "i8", "f8_e4m3"];
const colorOf = (dtype) => `s${Math.max(0, DTYPE_COLORS.indexOf(dtype))}`;

function shapeText(cell) {
  const names = cell.lengths;
  return cell.up_to.map((bound, i) => (bound === null ? `${names[i]} > 8192` : `${names[i]} ≤ ${bound}`)).join(", ");
}

let shownKernels = null; /* the document that is drawn; null: none yet */

function showRoofline(figures) {
  shownKernels = figures;
  const { peak, kernels } = figures;
  const plot = $("roofline-plot");
  const cells = kernels.filter((cell) => cell.busy_seconds > 0 && cell.bytes > 0 && cell.flops > 0);
  const busy = cells.reduce((sum, cell) => sum + cell.busy_seconds, 0);
  const points = cells.map((cell) => ({ ...cell, intensity: cell.flops / cell.bytes,
    rate: cell.flops / cell.busy_seconds, share: cell.busy_seconds / busy })).sort((a, b) => b.share - a.share);
  const roofs = Object.entries(peak.flops).filter(([dtype]) => points.some((point) => point.dtype === dtype));
  const shown = roofs.length > 0 ? roofs : Object.entries(peak.flops);
  peakFlops = peak.devices * Math.max(0, ...shown.map(([, rate]) => rate));
  write($("roofline-note"), (points.length === 0 ? "Nothing was computed yet. " :
    "A point for each kernel, type and class of shape since the start of the daemon; its area is its share of the device's time. Point at one, or focus it and use the arrow keys, to read its figures. ") +
    (shown.length > 0 ? "" : "The peaks of this device are not known, so no roof is drawn."));
  const rates = [...points.map((point) => point.rate), ...shown.map(([, rate]) => rate)];
  const intensities = points.map((point) => point.intensity);
  const low = (list, most) => 10 ** Math.floor(Math.log10(Math.min(most, ...list)));
  const high = (list, least) => 10 ** Math.ceil(Math.log10(Math.max(least, ...list) * 1.2));
  const width = Math.max(280, plot.clientWidth || 600);
  const xs = [low(intensities, 0.1), high(intensities, 1000)];
  const ys = [low(rates, 1e9), high(rates, 1e10)];
  const { x, y, parts, floor } = rooflineAxes(plot, { width, height: width < 500 ? 260 : 340, xs, ys });
  const names = []; /* of the roofs, from the lowest one up, none over another */
  for (const [dtype, rate] of [...shown].sort(([, one], [, other]) => one - other)) {
    const ridge = peak.bytes_per_second > 0 ? rate / peak.bytes_per_second : xs[0];
    const start = Math.max(xs[0], peak.bytes_per_second > 0 ? ys[0] / peak.bytes_per_second : xs[0]);
    const from = Math.min(ridge, start);
    parts.push(svg("path", { class: `roof ${colorOf(dtype)}`,
      d: `M${x(from)} ${y(Math.min(rate, from * (peak.bytes_per_second || Infinity)))}L${x(Math.max(xs[0], ridge))} ${y(rate)}H${x(xs[1])}` }));
    names.push({ text: `${dtype}: ${flops(rate)}`, y: Math.min(y(rate) - 4, (names.at(-1)?.y ?? Infinity) - 12) });
  }
  parts.push(...names.map(({ text, y }) => svg("text", { class: "roof-name", x: x(xs[1]) - 4, y, "text-anchor": "end" }, text)));
  const labels = []; /* that are drawn; one that would overlap another is left out */
  const focused = document.activeElement?.dataset?.cell;
  for (const point of points) {
    const text = `${point.op} ${point.dtype} by ${point.kernel}, ${shapeText(point)}: ${flops(point.rate)} at ${point.intensity.toPrecision(3)} FLOP/byte, ${percent(point.share)} of the time, ${whole(point.works)} computed`;
    const circle = svg("circle", { class: `point ${colorOf(point.dtype)}`, cx: x(point.intensity), cy: y(point.rate),
      r: 4 + 18 * Math.sqrt(point.share), tabindex: -1, role: "img", "aria-label": text });
    circle.dataset.cell = `${point.op} ${point.kernel} ${point.dtype} ${point.up_to}`;
    for (const event of ["pointerenter", "focus"])
      circle.addEventListener(event, () => write($("roofline-value"), text));
    parts.push(circle);
    const away = 18 * Math.sqrt(point.share);
    const below = y(point.rate) + 20 + away;
    const label = { x: x(point.intensity), y: below < floor ? below : y(point.rate) - 8 - away };
    if (point.share < 0.05 || labels.some((each) => Math.abs(each.x - label.x) < 64 && Math.abs(each.y - label.y) < 14))
      continue;
    labels.push({ ...label, text: point.kernel });
  }
  parts.push(...labels.map(({ text, ...at }) => svg("text", { ...at, "text-anchor": "middle" }, text))); /* over the points */
  plot.replaceChildren(...parts);
  const circles = [...plot.querySelectorAll("circle")];
  const again = focused === undefined ? undefined : circles.find((circle) => circle.dataset.cell === focused);
  (again ?? circles[0])?.setAttribute("tabindex", 0);
  again?.focus();
  key("roofline-key", [...new Set(points.map((point) => point.dtype))].map((dtype) => [dtype, colorOf(dtype)]));
}

/* The points are one stop of the Tab key, of which there may be many; the arrow keys go from point to point. */
$("roofline-plot").addEventListener("keydown", (event) => {
  const circles = [...$("roofline-plot").querySelectorAll("circle")];
  const at = circles.indexOf(document.activeElement);
  const next = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: circles.length - 1 }[event.key];
  if (at < 0 || next === undefined) return;
  event.preventDefault();
  const chosen = circles[Math.min(circles.length - 1, Math.max(0, next))];
  for (const circle of circles) circle.setAttribute("tabindex", circle === chosen ? 0 : -1);
  chosen.focus();
});
