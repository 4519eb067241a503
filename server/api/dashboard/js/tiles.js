/* Tiles: one thread block or one core of a tiled product, step by step, and its place on the roofline. */

/* Used where the device's peaks are not known: an H100 SXM, f32 without tensor cores. */
const EXAMPLE_ROOF = { name: "an H100's", flops: 67e12, bytes: 3.35e12 };
let tileRoof = EXAMPLE_ROOF;
let tilePlaying = null;

function tileProblem() {
  const [m, n, k] = ["m", "n", "k"].map((name) =>
    Math.min(65536, Math.max(1, Math.floor(Number($(`tile-${name}`).value)) || 1)));
  const size = 2 ** Number($("tile-size").value);
  return { m, n, k, size, steps: Math.ceil(k / size), step: Number($("tile-step").value) };
}

/* Elements of A and B that are read from device memory, in all. A tile that reaches over the edge
 * reads only what is there. */
const naiveReads = ({ m, n, k }) => 2 * m * n * k;
const tiledReads = ({ m, n, k, size }) => m * k * Math.ceil(n / size) + k * n * Math.ceil(m / size);
const intensityOf = (problem, reads) => 2 * problem.m * problem.n * problem.k / (4 * (reads + problem.m * problem.n));
const attainable = (intensity) => Math.min(tileRoof.flops, intensity * tileRoof.bytes);

function drawBlock(problem) {
  const { m, n, k, size, step } = problem;
  const scale = 140 / Math.max(m, n, k);
  const [h, w, d] = [m, n, k].map((length) => Math.max(8, length * scale));
  const gap = 26;
  const [left, top] = [20, 22];
  const [cx, cy] = [left + d + gap, top + d + gap];
  const part = (from, length, whole) => [from / whole, Math.min(length, whole - from) / whole];
  const blockRow = Math.floor(Math.ceil(m / size) / 2) * size, blockColumn = Math.floor(Math.ceil(n / size) / 2) * size;
  const [i, rowsShare] = part(Math.min(blockRow, m - 1), size, m), [j, columnsShare] = part(Math.min(blockColumn, n - 1), size, n);
  const [p, depthShare] = part(step * size, size, k);
  const box = (x, y, width, height, name) => svg("rect", { x, y, width: Math.max(2, width), height: Math.max(2, height), class: name });
  const plot = $("tile-plot");
  /* The drawing stays at one scale, so that the letters of a narrow one do not grow: a label is up to 110 wide. */
  const [across, down] = [left + d + gap + Math.max(w, 110) + 20, top + d + gap + h + 18];
  plot.setAttribute("viewBox", `${(across - 346) / 2} ${(down - 346) / 2} 346 346`);
  plot.setAttribute("height", 340);
  plot.replaceChildren(
    box(left, cy, d, h, "matrix"), box(cx, top, w, d, "matrix"), box(cx, cy, w, h, "matrix"),
    box(left, cy + i * h, d, rowsShare * h, "s0 band"), box(cx + j * w, top, columnsShare * w, d, "s1 band"),
    box(left + p * d, cy + i * h, depthShare * d, rowsShare * h, "s0"),
    box(cx + j * w, top + p * d, columnsShare * w, depthShare * d, "s1"),
    box(cx + j * w, cy + i * h, columnsShare * w, rowsShare * h, "s2"),
    svg("text", { x: left, y: cy + h + 13 }, `A, ${m} × ${k}`), svg("text", { x: cx, y: top - 6 }, `B, ${k} × ${n}`),
    svg("text", { x: cx, y: cy - 5 }, `C, ${m} × ${n}`));
}

function drawTileRoofline(problem) {
  const xs = [0.1, 1000], ys = [1e9, 10 ** Math.ceil(Math.log10(tileRoof.flops * 1.1))];
  const plot = $("tile-roofline");
  const { x, y, parts } = rooflineAxes(plot, { width: Math.max(280, plot.clientWidth || 400), height: 340, xs, ys });
  const ridge = tileRoof.flops / tileRoof.bytes;
  const start = Math.max(xs[0], ys[0] / tileRoof.bytes);
  parts.push(svg("path", { class: "roof s3", d: `M${x(start)} ${y(start * tileRoof.bytes)}L${x(ridge)} ${y(tileRoof.flops)}H${x(xs[1])}` }));
  parts.push(svg("text", { x: Math.min(x(ridge), x(xs[1]) - 66), y: y(tileRoof.flops) + 20 }, `ridge: ${ridge.toPrecision(3)}`));
  for (let power = 0; power <= 8; power++) {
    const size = 2 ** power;
    const intensity = intensityOf(problem, tiledReads({ ...problem, size }));
    const chosen = size === problem.size;
    parts.push(svg("circle", { class: `point s${chosen ? 2 : 5}`, cx: x(intensity), cy: y(attainable(intensity)), r: chosen ? 8 : 3 }));
    if (chosen) parts.push(svg("text", { x: x(intensity) + 12, y: y(attainable(intensity)) + 16 }, `tile ${size}`));
  }
  plot.replaceChildren(...parts);
}

/* What computes a tile, and where from and where to the tile is loaded. */
const tileWords = () => (isCpu() ? { worker: "core", memory: "memory", near: "the core's cache" } :
  { worker: "thread block", memory: "device memory", near: "shared memory" });

const times = (number) => (number === 1 ? "once" : `${whole(number)} times`);

function showTiles() {
  const before = tileProblem();
  $("tile-step").max = String(before.steps - 1);
  const problem = tileProblem();
  const { m, n, k, size, steps, step } = problem;
  write($("tile-size-value"), `${size} × ${size}`);
  write($("tile-step-value"), `${step + 1} of ${steps}`);
  for (const name of ["size", "step"]) $(`tile-${name}`).setAttribute("aria-valuetext", $(`tile-${name}-value`).textContent);
  drawBlock(problem);
  drawTileRoofline(problem);
  const [height, width, depth] = [Math.min(size, m), Math.min(size, n), Math.min(size, k - step * size)];
  const { worker, memory, near } = tileWords();
  write($("tile-note"), `Why a matrix product is computed tile by tile. A ${worker} computes one tile of C. ` +
    `It walks along k, and in each step loads one tile of A and one of B into ${near}, where every loaded element is used as often as the tile is wide.`);
  $("tile-plot").setAttribute("aria-label", `One step of the ${worker}`);
  write($("tile-says"), `Step ${step + 1}: the ${worker} loads ${height} × ${depth} of A and ${depth} × ${width} of B, ` +
    `which is ${whole(height * depth + depth * width)} elements, and does ${whole(height * width * depth)} multiply-adds with them. ` +
    `Each loaded element of A is used ${times(width)}, and each of B ${times(height)}.`);
  const [naive, tiled] = [naiveReads(problem), tiledReads(problem)];
  const intensity = intensityOf(problem, tiled);
  const ridge = tileRoof.flops / tileRoof.bytes;
  rows("tile-counts", [
    [`elements read from ${memory}, naive`, whole(naive)],
    [`elements read from ${memory}, tiled`, whole(tiled)],
    ["the tiled kernel reads less by a factor of", (naive / tiled).toPrecision(3)],
    ["arithmetic intensity, f32", `${intensity.toPrecision(3)} FLOP/byte`],
    [`at most, under ${tileRoof.name} roofs`, `${flops(attainable(intensity))}, ${intensity < ridge ? "limited by memory" : "limited by arithmetic"}`],
  ]);
}

/* The device's own roofs, if both are known. */
function setTileRoof(peak) {
  if (peak.flops.f32 > 0 && peak.bytes_per_second > 0)
    tileRoof = { name: "this device's", flops: peak.flops.f32, bytes: peak.bytes_per_second };
}

function playTiles() {
  if (tilePlaying !== null) {
    clearInterval(tilePlaying);
    tilePlaying = null;
  } else {
    tilePlaying = setInterval(() => {
      $("tile-step").value = String((tileProblem().step + 1) % tileProblem().steps);
      showTiles();
    }, 600);
  }
  write($("tile-play"), tilePlaying === null ? "Play" : "Pause");
}

for (const name of ["m", "n", "k", "size", "step"]) $(`tile-${name}`).addEventListener("input", showTiles);
$("tile-play").addEventListener("click", playTiles);
