/* The stages by operation, and the requests that failed or were slow. */

let pastRequests = { failed: [], slow: [], slow_ms: 0 };

/* Over the last minute; over all that is kept, if nothing was computed in the last minute. */
function showStages() {
  const counted = (of) => of.some((sample) => sample.stages_ms !== undefined);
  const of = counted(recent(60)) ? recent(60) : samples;
  const means = computing.map((op) => {
    const requests = of.reduce((sum, sample) => sum + sample.requests[op], 0);
    return [op, requests, stageNames.map((name, i) =>
      [name, of.reduce((sum, sample) => sum + (sample.stages_ms?.[op]?.[i] ?? 0), 0) / 1000 / Math.max(1, requests)])];
  }).filter(([, requests]) => requests > 0);
  const most = Math.max(0, ...means.map(([, , parts]) => parts.reduce((sum, [, value]) => sum + value, 0)));
  $("stage-bars").replaceChildren(...means.flatMap(([op, , parts]) => [
    make("div", `${op}: ${parts.filter(([, value]) => value > 0).map(([name, value]) => `${name} ${time(value)}`).join(", ")}`),
    stackedBar(parts, most)]));
  if (means.length === 0) $("stage-bars").append(make("p", "Nothing was computed in the last 15 minutes."));
  key("stage-key", stageNames.map((name, i) => [stageText(name), `s${i}`]));
}

function requestRow(request) {
  const row = make("tr");
  const shape = request.op === null || request.shape[0] === 0 ? "–" :
    `${request.shape.slice(0, 3).join("×")}${request.shape[3] > 1 ? ` ·${request.shape[3]}` : ""}${request.dtype === null ? "" : ` ${request.dtype}`}`;
  const sentence = make("td", `${request.method} ${request.path}`, "sentence");
  if (request.detail !== null) sentence.append(make("small", request.detail));
  const stages = Object.entries(request.stages_ms).map(([name, value]) => [name, value / 1000]);
  const bar = make("td");
  if (stages.some(([, value]) => value > 0)) {
    bar.append(stackedBar(stages, stages.reduce((sum, [, value]) => sum + value, 0)));
  }
  row.append(make("td", clock(request.time)), make("td", String(request.status)), sentence, make("td", shape),
    make("td", request.kernel ?? "–"), make("td", time(request.total_ms / 1000)), bar, make("td", request.request_id));
  nameCells(row, columnNames($("request-rows")));
  return row;
}

function showRequests() {
  const kind = document.querySelector("input[name=kind]:checked").value;
  const list = pastRequests[kind];
  write($("requests-note"), `A request failed if its status is 400 or greater. A computation is slow if it takes longer than ${time(pastRequests.slow_ms / 1000)}, which follows the p99 of the last minute. The id is the request's in the daemon's log.`);
  $("request-rows").replaceChildren(...list.map(requestRow));
  if (list.length === 0) {
    const row = make("tr");
    const cell = make("td", `No requests ${kind === "slow" ? "were slow" : "failed"}.`);
    cell.colSpan = 8;
    row.append(cell);
    $("request-rows").append(row);
  }
}
for (const input of document.querySelectorAll("input[name=kind]")) input.addEventListener("change", showRequests);
