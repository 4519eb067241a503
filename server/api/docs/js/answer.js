/* An answer: status, times, headers, body. */

const SHOWN_ROWS = 16;
const SHOWN_COLUMNS = 8;
const SHOWN_TEXT = 64 * 1024;

function showTimes(header, took_ms) {
  const parts = [...(header ?? "").matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, ms]) => [name, Number(ms)]);
  const stages = parts.filter(([name]) => name !== "total");
  const total = parts.find(([name]) => name === "total")?.[1];
  const says = total === undefined ? `The answer took ${timeText(took_ms)}.` :
    `The daemon took ${timeText(total)} (Server-Timing); with the network and the browser it was ${timeText(took_ms)}.`;
  const place = make("div", make("p", says));
  const sum = stages.reduce((all, [, ms]) => all + ms, 0);
  if (sum === 0) return place;
  const bar = make("div", undefined, "bar");
  const key = make("p", undefined, "key");
  stages.forEach(([name, ms], i) => {
    const piece = make("i", undefined, `k${i % 6}`);
    piece.style.width = `${(100 * ms) / sum}%`;
    bar.append(piece);
    key.append(make("span", `${name} ${timeText(ms)}`, `k${i % 6}`));
  });
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `Server-Timing: ${key.textContent}`);
  place.append(bar, key);
  return place;
}

function showHeaders(headers) {
  const table = make("table", undefined, "headers");
  const names = [...headers.keys()];
  for (const name of names) table.append(make("tr", [make("th", name), make("td", headers.get(name))]));
  const place = fold(`${names.length} headers`, [table]);
  place.open = true;
  return place;
}

function saveLink(blob, name) {
  const link = make("a", `Save the body (${bytesText(blob.size)})`);
  link.href = URL.createObjectURL(blob);
  link.download = name;
  return make("p", link);
}

/* A raw array as a table, by the headers that say its type and shape; null if it cannot be shown. */
function showArray(buffer, type, headers) {
  if (type !== "application/octet-stream") return null;
  const dtype = headers.get("Gemmd-Dtype");
  const shape = (headers.get("Gemmd-Shape") ?? "").split(",").map(Number);
  if (NUMBER_BYTES[dtype] === undefined || shape.some((length) => !(length > 0))) return null;
  const columns = shape[shape.length - 1];
  const rows = shape.slice(0, -1).reduce((product, each) => product * each, 1);
  const [height, width] = [Math.min(rows, SHOWN_ROWS), Math.min(columns, SHOWN_COLUMNS)];
  const numbers = decode(dtype, buffer, height * columns);
  const cut = height < rows || width < columns ? `; the first ${height} × ${width} are shown` : "";
  return matrixTable(`${shape.join(" × ")}, ${dtype}${cut}`, height, width, (i, j) =>
    make("td", String(Number(numbers[i * columns + j].toPrecision(7))), "number"));
}

function showText(text, type) {
  if (type.includes("json")) {
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch { /* shown as it came */ }
  }
  const pre = make("pre", text.length > SHOWN_TEXT ? `${text.slice(0, SHOWN_TEXT)}\n…` : text);
  pre.tabIndex = 0;
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", "The body of the answer");
  return pre;
}

function showBody(place, buffer, type, headers) {
  if (/json|^text\//.test(type)) place.append(showText(new TextDecoder().decode(buffer), type));
  else place.append(showArray(buffer, type, headers) ?? make("p", `${bytesText(buffer.byteLength)} of ${type}.`, "note"));
  place.append(saveLink(new Blob([buffer], { type }), type === "application/x-npy" ? "answer.npy" :
    type.includes("safetensors") ? "answer.safetensors" : type.includes("json") ? "answer.json" : "answer.bin"));
}

/* Shows events as they come, until the daemon or the user ends them. */
async function showEvents(answer, place) {
  const pre = showText("", "text/event-stream");
  place.append(pre);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    write(pre, (pre.textContent + value).slice(-SHOWN_TEXT));
  }
}

async function showAnswer(place, answer, began) {
  const type = answer.headers.get("Content-Type") ?? "";
  const status = make("p", [make("span", `${answer.status} ${answer.statusText}`.trim(), `status s${String(answer.status)[0]}`)]);
  place.replaceChildren(make("h4", "Answer"), status);
  if (type.startsWith("text/event-stream")) {
    place.append(showHeaders(answer.headers));
    await showEvents(answer, place);
    return;
  }
  const buffer = await answer.arrayBuffer();
  place.append(showTimes(answer.headers.get("Server-Timing"), performance.now() - began));
  if (buffer.byteLength > 0) showBody(place, buffer, type, answer.headers);
  else place.append(make("p", "The answer has no body.", "note"));
  place.append(showHeaders(answer.headers));
}
