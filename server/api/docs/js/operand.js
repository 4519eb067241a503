/* The operands that a raw body holds, by the values of the parameters, and an editor of them. */

const EDITABLE_ROWS = 12;
const EDITABLE_COLUMNS = 8;
const MOST_NUMBERS = 4 * 1024 * 1024;

/* Perl's names of types. */
const PACK = { f64: "d<", f32: "f<", i8: "c", i32: "l<" };

/* The least and the greatest number of the types of integers. */
const INTEGERS = { i8: [-128, 127], i32: [-(2 ** 31), 2 ** 31 - 1] };
const isInteger = (dtype, number) => Number.isInteger(number) && number >= INTEGERS[dtype][0] && number <= INTEGERS[dtype][1];

const isSet = (text) => (text ?? "") !== "";

/* A whole number of at least 1; an error names the parameter. */
function dim(values, name, otherwise) {
  const text = isSet(values[name]) ? values[name] : otherwise;
  if (!isSet(text)) throw new Error(`${name} is missing.`);
  if (!/^[0-9]+$/.test(text) || Number(text) < 1) throw new Error(`${name} is not a whole number of at least 1.`);
  return Number(text);
}

function gemmOperands(values) {
  const dtype = isSet(values.dtype) ? values.dtype : "f32";
  const out = isSet(values.out) ? values.out : dtype === "i8" ? "i32" : dtype;
  const [m, n, k, batch] = ["m", "n", "k"].map((name) => dim(values, name)).concat(dim(values, "batch", "1"));
  const list = [];
  const [aRows, aColumns] = values.transa === "1" ? [k, m] : [m, k];
  const [bRows, bColumns] = values.transb === "1" ? [n, k] : [k, n];
  if (!isSet(values.a)) list.push({ name: "A", rows: batch * aRows, columns: aColumns, dtype });
  if (!isSet(values.b)) list.push({ name: "B", rows: batch * bRows, columns: bColumns, dtype });
  if (values.bias === "1") list.push({ name: "bias", rows: 1, columns: n, dtype: out });
  if (isSet(values.beta) && Number(values.beta) !== 0) list.push({ name: "C0", rows: batch * m, columns: n, dtype: out });
  return list;
}

function attentionOperands(values) {
  const dtype = isSet(values.dtype) ? values.dtype : "f16";
  const [heads, sq, d, batch] = ["heads", "sq", "d"].map((name) => dim(values, name)).concat(dim(values, "batch", "1"));
  const kvHeads = dim(values, "kv_heads", String(heads));
  const skv = dim(values, "skv", String(sq));
  const list = [];
  if (values.lens === "1")
    list.push({ name: "lengths of Q", rows: 1, columns: batch, dtype: "i32", first: sq },
      { name: "lengths of K and V", rows: 1, columns: batch, dtype: "i32", first: skv });
  list.push({ name: "Q", rows: batch * heads * sq, columns: d, dtype });
  if (!isSet(values.k)) list.push({ name: "K", rows: batch * kvHeads * skv, columns: d, dtype });
  if (!isSet(values.v)) list.push({ name: "V", rows: batch * kvHeads * skv, columns: dim(values, "dv", String(d)), dtype });
  return list;
}

/* The dimensions that the parameter `shape` gives. */
function shapeOf(values) {
  if (!/^[1-9][0-9]*(,[1-9][0-9]*)*$/.test(values.shape ?? "")) throw new Error("shape is not whole numbers with commas between them.");
  return values.shape.split(",").map(Number);
}

/* An operand of any number of dimensions: the last one lies in rows. */
function operandOf(name, dims, dtype) {
  const rows = dims.slice(0, -1).reduce((product, each) => product * each, 1);
  return { name, rows, columns: dims[dims.length - 1], dtype };
}

const typeOf = (values) => (isSet(values.dtype) ? values.dtype : "f32");

function tensorOperands(values) {
  return [operandOf("tensor", shapeOf(values), typeOf(values))];
}

function reduceOperands(values) {
  return isSet(values.x) ? [] : [operandOf("X", shapeOf(values), typeOf(values))];
}

function softmaxOperands(values) {
  const lens = isSet(values.lens) ? Number(values.lens) : 0;
  if (isSet(values.x) && lens === 0) return [];
  const dims = shapeOf(values);
  if (!(Number.isInteger(lens) && lens >= 0 && lens < dims.length)) throw new Error("lens is not less than the number of dimensions.");
  const list = isSet(values.x) ? [] : [operandOf("X", dims, typeOf(values))];
  if (lens > 0) list.unshift({ ...operandOf("lengths", dims.slice(0, lens), "i32"), first: dims[dims.length - 1] });
  return list;
}

function convOperands(values) {
  const dtype = typeOf(values);
  const [channels, height, width, filters] = ["channels", "height", "width", "filters"].map((name) => dim(values, name));
  const [r, s] = ["filter_h", "filter_w"].map((name) => dim(values, name));
  const [batch, groups] = ["batch", "groups"].map((name) => dim(values, name, "1"));
  const list = [operandOf("X", values.layout === "nhwc" ? [batch, height, width, channels] : [batch, channels, height, width], dtype)];
  const seen = Math.max(1, Math.floor(channels / groups));
  if (!isSet(values.w))
    list.push(operandOf("W", values.w_layout === "krsc" ? [filters, r, s, seen] : [filters, seen, r, s], dtype));
  if (values.bias === "1")
    list.push(operandOf("bias", [filters], isSet(values.out) ? values.out : dtype === "i8" ? "i32" : dtype));
  return list;
}

function expertOperands(values) {
  const dtype = typeOf(values);
  const [m, n, k, count] = ["m", "n", "k", "count"].map((name) => dim(values, name));
  const topk = dim(values, "topk", "1");
  const columns = values.glu === "1" ? 2 * n : n;
  const list = isSet(values.a) ? [] : [operandOf("A", [m, k], dtype)];
  if (!isSet(values.w))
    list.push(operandOf("W", values.transb === "1" ? [count, columns, k] : [count, k, columns], dtype));
  list.push({ ...operandOf("experts", [m, topk], "i32"), first: 0 });
  if (values.weights === "1") list.push(operandOf("weights", [m, topk], "f32"));
  if (values.bias === "1") list.push(operandOf("bias", [count, columns], isSet(values.out) ? values.out : dtype));
  return list;
}

/* By operationId: the operations whose raw bodies the editor can make. */
const OPERANDS = { gemm: gemmOperands, attention: attentionOperands, conv2d: convOperands, reduce: reduceOperands,
  softmax: softmaxOperands, experts: expertOperands, putTensor: tensorOperands };

function matrixTable(title, rows, columns, cell) {
  const table = make("table", make("caption", title));
  for (let i = 0; i < rows; i++)
    table.append(make("tr", Array.from({ length: columns }, (_, j) => cell(i, j))));
  return make("div", table, "matrix");
}

/* An editor of the operands that `list` returns for the values of the parameters. A large operand is
 * random. Numbers stay where they are when sizes change. */
function operandEditor(list) {
  const element = make("div", undefined, "matrices");
  const kept = new Map(); /* "A 0 1" -> text */
  let shown = "";

  function editor(operand) {
    const title = `${operand.name}, ${operand.rows} × ${operand.columns}, ${operand.dtype}`;
    if (operand.rows > EDITABLE_ROWS || operand.columns > EDITABLE_COLUMNS)
      return make("p", `${title}: random numbers.`, "note");
    return matrixTable(title, operand.rows, operand.columns, (i, j) => {
      const input = make("input");
      const key = `${operand.name} ${i} ${j}`;
      input.inputMode = "decimal";
      input.setAttribute("aria-label", `${operand.name}, row ${i + 1}, column ${j + 1}`);
      input.value = kept.get(key) ?? String(operand.first ?? ((2 * i + 3 * j) % 7) - 2);
      input.addEventListener("input", () => kept.set(key, input.value));
      return make("td", input);
    });
  }

  function refresh(values) {
    let operands;
    try {
      operands = list(values);
    } catch (error) {
      shown = "";
      element.replaceChildren(make("p", error.message, "note"));
      return;
    }
    const next = JSON.stringify(operands);
    if (next === shown) return;
    shown = next;
    element.replaceChildren(...operands.map(editor));
  }

  function take(values) {
    const operands = list(values);
    if (operands.reduce((sum, each) => sum + each.rows * each.columns, 0) > MOST_NUMBERS)
      throw new Error("These operands are too large for this page. Send a file, or use gemmctl.");
    const parts = operands.map((operand, at) => {
      if (NUMBER_BYTES[operand.dtype] === undefined) throw new Error(`The editor cannot write ${operand.dtype}. Send a file.`);
      const inputs = [...element.children[at].querySelectorAll("input")];
      const numbers = inputs.length > 0 ? inputs.map((input) => {
        if (input.value.trim() === "" || Number.isNaN(Number(input.value))) {
          input.focus();
          throw new Error(`${input.getAttribute("aria-label")} is not a number.`);
        }
        if (INTEGERS[operand.dtype] !== undefined && !isInteger(operand.dtype, Number(input.value))) {
          input.focus();
          throw new Error(`${input.getAttribute("aria-label")} is not a whole number from ${INTEGERS[operand.dtype].join(" to ")} (${operand.dtype}).`);
        }
        return Number(input.value);
      }) : Array.from({ length: operand.rows * operand.columns }, () =>
        operand.first ?? (operand.dtype.startsWith("i") ? Math.floor(Math.random() * 19) - 9 : Math.random() * 2 - 1));
      return encode(operand.dtype, numbers);
    });
    return new Blob(parts);
  }

  /* A command that writes the same bytes; null if the operands are random or of a type that perl does
   * not pack. */
  function says(values) {
    let operands;
    try {
      operands = list(values);
    } catch {
      return null;
    }
    const parts = operands.map((operand, at) => {
      const numbers = [...(element.children[at]?.querySelectorAll("input") ?? [])].map((input) => Number(input.value));
      return numbers.length > 0 && numbers.every(Number.isFinite) && PACK[operand.dtype] !== undefined ?
        `pack("${PACK[operand.dtype]}*", ${numbers.join(", ")})` : null;
    });
    return parts.length === 0 || parts.includes(null) ? null : `perl -e 'print ${parts.join(" . ")}'`;
  }
  return { element, refresh, take, says };
}
