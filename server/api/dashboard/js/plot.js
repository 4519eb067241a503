/* What all drawings share: SVG elements, scales and axes. */

const SVG_NAMESPACE = $("roofline-plot").namespaceURI;

function svg(name, attributes, text) {
  const element = document.createElementNS(SVG_NAMESPACE, name);
  for (const [attribute, value] of Object.entries(attributes ?? {})) element.setAttribute(attribute, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/* Steps of 1, 2 or 5 times a power of ten from 0 up to at least `most`, about four of them. Of bytes, the steps are in
 * the unit that they are written in. */
function niceTicks(most, isBytes = false) {
  if (!(most > 0)) return [0, 1];
  if (isBytes && most >= 1024) {
    const unit = 1024 ** Math.floor(Math.log(most) / Math.log(1024));
    return niceTicks(most / unit).map((tick) => tick * unit);
  }
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.999);
  const ticks = [0];
  while (ticks[ticks.length - 1] < most * 0.999) ticks.push(step * ticks.length);
  return ticks;
}

const logScale = (from, to, start, end) => (value) =>
  start + (end - start) * (Math.log(Math.max(value, from)) - Math.log(from)) / (Math.log(to) - Math.log(from));

function decades(from, to) {
  const ticks = [];
  for (let power = Math.ceil(Math.log10(from)); power <= Math.log10(to) + 1e-9; power++) ticks.push(10 ** power);
  return ticks;
}

/* Axes of a log-log plot of operations a second over operations a byte. Returns its two scales, and where the lower
 * axis is. */
function rooflineAxes(plot, { width, height, xs, ys }) {
  const left = 82, bottom = 34, top = 24, right = 12; /* the largest point has a radius of 22 */
  const x = logScale(xs[0], xs[1], left, width - right);
  const y = logScale(ys[0], ys[1], height - bottom, top);
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  plot.setAttribute("height", height);
  const parts = [];
  for (const tick of decades(...xs)) {
    parts.push(svg("path", { class: "grid", d: `M${x(tick)} ${top}V${height - bottom}` }));
    parts.push(svg("text", { x: x(tick), y: height - bottom + 14, "text-anchor": "middle" }, tick >= 1 ? count(tick) : String(tick)));
  }
  for (const tick of decades(...ys)) {
    parts.push(svg("path", { class: "grid", d: `M${left} ${y(tick)}H${width - right}` }));
    parts.push(svg("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, flops(tick)));
  }
  parts.push(svg("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
  parts.push(svg("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" },
    `${width < 500 ? "" : "arithmetic intensity ("}FLOP per byte of ${isCpu() ? "" : "device "}memory${width < 500 ? "" : ")"}`));
  return { x, y, parts, floor: height - bottom };
}

/* One bar of stacked parts: [[name, value], ...]; colors follow the order. */
function stackedBar(parts, most) {
  const bar = svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img" });
  bar.setAttribute("aria-label", parts.map(([name, value]) => `${name} ${time(value)}`).join(", "));
  let from = 0;
  parts.forEach(([name, value], i) => {
    const width = most > 0 ? 100 * value / most : 0;
    const part = svg("rect", { x: from, y: 0, width, height: 10, class: `s${i}` });
    part.append(svg("title", {}, `${name}: ${time(value)}`));
    bar.append(part);
    from += width;
  });
  return bar;
}
