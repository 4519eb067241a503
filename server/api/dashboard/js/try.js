/* Try it: a product of small matrices that are edited here, or of random ones of any size. */

const EDITABLE = 6; /* larger operands are random and not shown */
const MOST_BYTES = 64 * 1024 * 1024;
let tried = null; /* the random operands, if they are too large for the editor */
const kept = new Map(); /* "A 0 1" -> text that a user has typed there, which stays when sizes change */

const trySize = () => ["m", "n", "k"].map((name) => Math.max(1, Math.floor(Number($(`try-${name}`).value)) || 1));
const tryArray = () => ($("try-dtype").value === "f64" ? Float64Array : Float32Array);
const isEditable = () => trySize().every((length) => length <= EDITABLE);

function matrixTable(name, height, width, cell) {
  const table = make("table");
  table.append(make("caption", `${name}, ${height} × ${width}`));
  for (let i = 0; i < height; i++) {
    const row = make("tr");
    for (let j = 0; j < width; j++) {
      const place = make("td");
      place.append(cell(i, j));
      row.append(place);
    }
    table.append(row);
  }
  return table;
}

function showOperands(random) {
  const [m, n, k] = trySize();
  const value = (i, j) => (random ? Math.round(Math.random() * 18 - 9) : (i + j) % 3 === 0 ? 1 : (2 * i + j) % 5);
  const editor = (name, height, width) => matrixTable(name, height, width, (i, j) => {
    const input = make("input");
    input.inputMode = "decimal";
    input.setAttribute("aria-label", `${name}, row ${i + 1}, column ${j + 1}`);
    if (random) kept.delete(`${name} ${i} ${j}`);
    input.value = kept.get(`${name} ${i} ${j}`) ?? String(value(i, j));
    input.addEventListener("input", () => kept.set(`${name} ${i} ${j}`, input.value));
    return input;
  });
  tried = null;
  write($("try-note"), "");
  showNoAnswer();
  $("try-operands").replaceChildren(...(isEditable() ? [editor("A", m, k), editor("B", k, n)] :
    [make("p", `A of ${m} × ${k} and B of ${k} × ${n} are random numbers between -1 and 1.`)]));
  showCode();
}

/* The body of the request: A, then B. A string says what is wrong. */
function operands() {
  const [m, n, k] = trySize();
  const length = m * k + k * n;
  if ((length + m * n) * 8 > MOST_BYTES) return "These matrices are too large for this page. Use gemmctl or a program.";
  const body = new (tryArray())(length);
  if (isEditable()) {
    const inputs = [...$("try-operands").querySelectorAll("input")];
    for (let i = 0; i < length; i++) {
      body[i] = Number(inputs[i].value.trim() === "" ? NaN : inputs[i].value);
      if (Number.isNaN(body[i])) {
        inputs[i].focus();
        return `${inputs[i].getAttribute("aria-label")} is not a number.`;
      }
    }
    return body;
  }
  if (tried === null || tried.length !== length || !(tried instanceof tryArray()))
    tried = body.map(() => Math.random() * 2 - 1);
  return tried;
}

function tryQuery() {
  const [m, n, k] = trySize();
  return `gemm?m=${m}&n=${n}&k=${k}${$("try-dtype").value === "f64" ? "&dtype=f64" : ""}`;
}

function showTiming(header, whole_ms) {
  const parts = [...(header ?? "").matchAll(/(\w+);dur=([\d.]+)/g)].map(([, name, ms]) => [name, Number(ms) / 1000]);
  const stages = parts.filter(([name]) => name !== "total");
  const total = parts.find(([name]) => name === "total")?.[1] ?? 0;
  $("try-timing").replaceChildren(make("p", `The daemon took ${time(total)}; with the network and the browser ${time(whole_ms / 1000)}.`),
    stackedBar(stages, stages.reduce((sum, [, value]) => sum + value, 0)));
  key("try-timing-key", stages.map(([name, value], i) => [`${stageText(name)} ${time(value)}`, `s${i}`]));
}

/* No answer stands beside operands that it does not belong to. */
function showNoAnswer() {
  for (const id of ["try-answer", "try-timing", "try-timing-key"]) $(id).replaceChildren();
}

async function multiply() {
  const body = operands();
  showNoAnswer();
  if (typeof body === "string") {
    write($("try-note"), body);
    return;
  }
  const [m, n] = trySize();
  const began = performance.now();
  write($("try-note"), "computing");
  try {
    const headers = { "Content-Type": "application/octet-stream" };
    if (token !== "") headers.Authorization = `Bearer ${token}`;
    const answer = await fetch(tryQuery(), { method: "POST", body, headers, cache: "no-store", credentials: "omit" });
    if (!answer.ok) {
      const problem = await answer.json().catch(() => ({})); /* of a proxy, which may answer with anything */
      write($("try-note"), `${answer.status}: ${problem.detail ?? answer.statusText}`);
      return;
    }
    const c = new (tryArray())(await answer.arrayBuffer());
    const took_ms = performance.now() - began;
    write($("try-note"), `Computed by ${answer.headers.get("Gemmd-Kernel") ?? "the daemon"}.${m > 8 || n > 8 ? " The first rows and columns:" : ""}`);
    const table = matrixTable("C", Math.min(m, 8), Math.min(n, 8), (i, j) => document.createTextNode(String(Number(c[i * n + j].toPrecision(6)))));
    for (const cell of table.querySelectorAll("td")) cell.className = "number";
    table.caption.textContent = `C, ${m} × ${n}`;
    $("try-answer").replaceChildren(table);
    showTiming(answer.headers.get("Server-Timing"), took_ms);
  } catch (error) {
    write($("try-note"), `The daemon did not answer: ${error.message}`);
  }
}

/* The numbers of the editor as text, those of A or of B; null: they are random or not all numbers. */
function edited(from, length) {
  if (!isEditable()) return null;
  const values = [...$("try-operands").querySelectorAll("input")].slice(from, from + length).map((input) => input.value.trim());
  return values.every((value) => value !== "" && Number.isFinite(Number(value))) ? values.map((value) => String(Number(value))) : null;
}

const inRows = (values, width) => Array.from({ length: values.length / width }, (_, i) =>
  `[${values.slice(i * width, (i + 1) * width).join(", ")}]`).join(", ");

function codeIn(language) {
  const [m, n, k] = trySize();
  const [a, b] = [edited(0, m * k), edited(m * k, k * n)];
  const base = new URL(".", location.href).href;
  const url = `${base}${tryQuery()}`;
  const wide = $("try-dtype").value === "f64";
  const size = wide ? 8 : 4;
  if (language === "curl") {
    const authorization = token === "" ? "" : " \\\n    -H \"Authorization: Bearer $GEMMD_TOKEN\"";
    const source = a === null || b === null ? `head -c ${size * (m * k + k * n)} /dev/urandom` :
      `perl -e 'print pack("${wide ? "d" : "f"}<*", ${[...a, ...b].join(", ")})'`;
    return `# A, then B, as ${m * k + k * n} little-endian ${wide ? "f64" : "f32"}\n${source} |\n` +
      `  curl -sS --fail-with-body${authorization} --data-binary @- \\\n    '${url}' |\n  od -An -v -w${size * n} -t f${size}`;
  }
  if (language === "python") {
    const authorization = token === "" ? "" : ",\n    headers={\"Authorization\": \"Bearer \" + os.environ[\"GEMMD_TOKEN\"]}";
    return `${token === "" ? "" : "import os\n"}import numpy as np\nimport requests\n\n` +
      `a = ${a === null ? `np.random.rand(${m}, ${k}).astype("<f${size}")` : `np.array([${inRows(a, k)}], "<f${size}")`}\n` +
      `b = ${b === null ? `np.random.rand(${k}, ${n}).astype("<f${size}")` : `np.array([${inRows(b, n)}], "<f${size}")`}\n` +
      `answer = requests.post(\n    "${url}", data=a.tobytes() + b.tobytes()${authorization})\n` +
      `answer.raise_for_status()\nc = np.frombuffer(answer.content, "<f${size}").reshape(${m}, ${n})\nprint(c)`;
  }
  const type = wide ? "double" : "float";
  return `/* cc product.c $(pkg-config --cflags --libs gemmd) -o product
 * GEMMD_URL=${base.replace(/\/$/, "")}${token === "" ? "" : " GEMMD_TOKEN=..."} ./product */
#include <gemmd/gemmd.h>
#include <stdio.h>

enum { M = ${m}, N = ${n}, K = ${k} };
static ${type} a[M * K]${a === null ? "" : ` = {${a.join(", ")}}`};
static ${type} b[K * N]${b === null ? "" : ` = {${b.join(", ")}}`};
static ${type} c[M * N];

int main(void)
{
    struct gemmd_error_info error;
    struct gemmd_result result;
    struct gemmd_gemm gemm;
    struct gemmd_client *client = gemmd_client_new(NULL, &error);
    if (client == NULL) {
        fprintf(stderr, "%s\\n", error.message);
        return 1;
    }
    gemmd_gemm_init(&gemm, sizeof gemm);
    gemm.m = M;
    gemm.n = N;
    gemm.k = K;${wide ? "\n    gemm.dtype = GEMMD_F64;" : ""}
    gemm.a = a;
    gemm.b = b;
    gemm.c = c;
    gemm.c_bytes = sizeof c;
    gemmd_result_init(&result, sizeof result);
    const enum gemmd_error code = gemmd_gemm(client, &gemm, &result, &error);
    if (code == GEMMD_OK)
        printf("c[0] is %g, computed by %s\\n", (double)c[0], result.kernel);
    else
        fprintf(stderr, "%s\\n", error.message);
    gemmd_client_free(client);
    return code != GEMMD_OK;
}`;
}

let language = "curl";
function showCode() {
  write($("try-code"), codeIn(language));
}

for (const name of ["m", "n", "k"]) $(`try-${name}`).addEventListener("input", () => showOperands(false));
$("try-operands").addEventListener("input", () => {
  write($("try-note"), "");
  showNoAnswer();
  showCode();
});
$("try-dtype").addEventListener("change", () => {
  tried = null;
  write($("try-note"), "");
  showNoAnswer();
  showCode();
});
$("try-random").addEventListener("click", () => showOperands(true));
$("try-form").addEventListener("submit", (event) => {
  event.preventDefault();
  multiply();
});
$("try-languages").addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  if (button.id === "try-copy") {
    try {
      await navigator.clipboard.writeText($("try-code").textContent);
      write(button, "Copied");
    } catch {
      getSelection().selectAllChildren($("try-code")); /* a page over plain HTTP may not copy */
      write(button, "Selected");
    }
    setTimeout(() => write(button, "Copy"), 1500);
    return;
  }
  language = button.value;
  for (const each of $("try-languages").querySelectorAll("button[value]")) each.setAttribute("aria-pressed", String(each === button));
  showCode();
});
showOperands(false);
