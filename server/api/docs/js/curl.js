/* A request as a curl command. */

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

/* `body` is what bodyEditor's says() returns, or null. */
function curlOf(method, target, headers, body) {
  const url = new URL(target, document.baseURI).href;
  const lines = [method === "GET" ? "curl -sS" : `curl -sS -X ${method}`];
  if (token() !== "") lines.push('-H "Authorization: Bearer $GEMMD_TOKEN"');
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== null) {
    lines.push(`-H ${quoted(`Content-Type: ${body.type}`)}`);
    if (body.json !== undefined) lines.push(`--data ${quoted(compact(body.json))}`);
    else lines.push(`--data-binary ${body.source === null ? quoted(`@${body.file}`) : "@-"}`);
  }
  lines.push(quoted(url));
  const command = lines.join(" \\\n  ");
  return body?.source ? `${body.source} |\n${command}` : command;
}

function compact(json) {
  try {
    return JSON.stringify(JSON.parse(json));
  } catch {
    return json;
  }
}
