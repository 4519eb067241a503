/* The body of a request: numbers that are edited here, a file, or JSON. */

/* Returns { element, refresh(values), take(values), says(values) }, or null if the operation has no body.
 * `take` returns { type, body }, body undefined for none, or throws an Error that says what is
 * missing. `says` describes the body for the curl command. */
function bodyEditor(operation) {
  const content = resolve(operation.requestBody).content;
  if (content === undefined) return null;
  const types = Object.keys(content);
  const type = choice(types.map((each) => [each, each]), types[0]);
  const list = OPERANDS[operation.operationId];
  const source = choice([["numbers", "numbers"], ["file", "a file"]], "numbers");
  const file = make("input");
  file.type = "file";
  const json = make("textarea");
  json.spellcheck = false;
  json.setAttribute("aria-label", "JSON");
  const jsonType = types.find((each) => each.endsWith("json"));
  if (jsonType !== undefined)
    json.value = JSON.stringify(content[jsonType].example ?? exampleOf(content[jsonType].schema), null, 2);
  const numbers = list === undefined ? null : operandEditor(list);
  const element = make("div");
  const sourceLabel = labelled("from ", source);
  const fileLabel = labelled("file ", file);
  element.append(make("h4", "Body"), make("div", [labelled("type ", type), sourceLabel, fileLabel], "row"), json);
  if (numbers !== null) element.append(numbers.element);

  const isJson = () => type.value.endsWith("json");
  const isNumbers = () => numbers !== null && type.value === "application/octet-stream" && source.value === "numbers";
  function refresh(values) {
    sourceLabel.hidden = numbers === null || type.value !== "application/octet-stream";
    json.hidden = !isJson();
    fileLabel.hidden = isJson() || isNumbers();
    if (numbers !== null) numbers.element.hidden = !isNumbers();
    if (isNumbers()) numbers.refresh(values);
  }
  function take(values) {
    if (isJson()) {
      if (json.value.trim() === "") return { type: type.value, body: undefined };
      try {
        JSON.parse(json.value);
      } catch (error) {
        json.focus();
        throw new Error(`The body is not JSON: ${error.message}`);
      }
      return { type: type.value, body: json.value };
    }
    if (isNumbers()) return { type: type.value, body: numbers.take(values) };
    if (file.files.length === 0) throw new Error("Choose a file for the body.");
    return { type: type.value, body: file.files[0] };
  }
  const says = (values) => ({ type: type.value, json: isJson() ? json.value : undefined,
    source: isNumbers() ? numbers.says(values) : null, file: isNumbers() ? "body.bin" : file.files[0]?.name ?? "body.bin" });
  return { element, refresh, take, says };
}
