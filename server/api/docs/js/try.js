/* The form of an operation, which sends the request from here. */

const token = () => $("token").value.trim();

/* Headers that the page or the browser decides, or that mean something over a Unix socket only. */
const NOT_OFFERED = new Set(["Accept", "Content-Encoding", "Gemmd-Memory"]);

/* The parameters of an operation, with those of its path; headers last. */
const PLACES = ["path", "query", "header"];
const parametersOf = (operation, item) => [...(item.parameters ?? []), ...(operation.parameters ?? [])].map(resolve)
  .sort((a, b) => PLACES.indexOf(a.in) - PLACES.indexOf(b.in));

function parameterInput(operation, parameter) {
  const schema = resolve(parameter.schema);
  const first = firstValue(operation, parameter);
  if (schema.enum !== undefined) {
    const otherwise = String(schema.default ?? "–"); /* is not sent */
    const options = schema.enum.filter((value) => value !== schema.default || String(value) === first);
    return choice([["", otherwise], ...options.map((value) => [String(value), String(value)])], first);
  }
  const input = make("input");
  input.value = first;
  input.autocomplete = "off";
  input.spellcheck = false;
  if (schema.default !== undefined) input.placeholder = String(schema.default);
  if (schema.type === "integer") input.inputMode = "numeric";
  return input;
}

/* The formats that a success may have. */
function answerTypes(operation) {
  const types = Object.entries(operation.responses).filter(([status]) => status.startsWith("2"))
    .flatMap(([, response]) => Object.keys(resolve(response).content ?? {}));
  return [...new Set(types)];
}

/* Path and query with the values of the parameters. Throws an Error if a value is missing. */
function targetOf(path, parameters, values) {
  const query = new URLSearchParams();
  for (const parameter of parameters) {
    const value = values[parameter.name];
    if (parameter.in === "path") {
      if (!isSet(value)) throw new Error(`${parameter.name} is missing.`);
      path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    } else if (parameter.in === "query" && isSet(value)) query.append(parameter.name, value);
  }
  const text = query.toString().replace(/%2C/g, ",");
  return `.${path}${text === "" ? "" : `?${text}`}`;
}

function tryForm(path, method, operation, item) {
  const parameters = parametersOf(operation, item).filter((each) => !NOT_OFFERED.has(each.name));
  const form = make("form", undefined, "try");
  const controls = new Map(); /* parameter -> its input */
  const fieldsOf = (list) => make("div", list.map((parameter) => {
    const control = parameterInput(operation, parameter);
    controls.set(parameter, control);
    return labelled(parameter.name, control);
  }), "fields");
  const inHeaders = parameters.filter((parameter) => parameter.in === "header");
  const body = bodyEditor(operation);
  const types = answerTypes(operation);
  const accept = choice([["", "any"], ...types.map((type) => [type, type])], "");
  const send = make("button", "Send", "send");
  const stop = make("button", "Stop");
  stop.type = "button";
  stop.hidden = true;
  const note = make("p", undefined, "note");
  note.setAttribute("role", "status");
  const command = make("pre");
  command.tabIndex = 0;
  command.setAttribute("role", "group");
  command.setAttribute("aria-label", "The request as a curl command");
  const asCurl = fold("As a curl command", [command]);
  asCurl.open = true;
  const place = make("div", undefined, "answer");
  place.setAttribute("aria-live", "polite");

  form.append(make("h4", "Try it"), fieldsOf(parameters.filter((parameter) => parameter.in !== "header")));
  if (inHeaders.length > 0) form.append(fold("Headers", [fieldsOf(inHeaders)]));
  if (body !== null) form.append(body.element);
  const row = make("div", [send, stop], "row");
  if (types.length > 1) row.append(labelled("Accept ", accept));
  form.append(row, note, asCurl, place);

  const values = () => Object.fromEntries([...controls].map(([parameter, control]) => [parameter.name, control.value.trim()]));
  function headers() {
    const set = [...controls].filter(([parameter, control]) => parameter.in === "header" && control.value.trim() !== "");
    const list = Object.fromEntries(set.map(([parameter, control]) => [parameter.name, control.value.trim()]));
    if (accept.value !== "") list.Accept = accept.value;
    return list;
  }
  function refresh() {
    body?.refresh(values());
    try {
      write(command, curlOf(method, targetOf(path, parameters, values()), headers(), body?.says(values()) ?? null));
    } catch (error) {
      write(command, error.message);
    }
  }

  let abort = null;
  async function submit() {
    let target, taken;
    for (const link of place.querySelectorAll("a[download]")) URL.revokeObjectURL(link.href);
    place.replaceChildren(); /* the answer to another request */
    try {
      target = targetOf(path, parameters, values());
      taken = body?.take(values());
    } catch (error) {
      write(note, error.message);
      return;
    }
    const sent = headers();
    if (taken?.body !== undefined) sent["Content-Type"] = taken.type;
    if (token() !== "") sent.Authorization = `Bearer ${token()}`;
    write(note, "waiting for the answer");
    abort = new AbortController();
    send.disabled = true;
    stop.hidden = false;
    const began = performance.now();
    try {
      const answer = await fetch(target, { method, headers: sent, body: taken?.body, cache: "no-store",
        credentials: "omit", signal: abort.signal });
      write(note, "");
      await showAnswer(place, answer, began);
    } catch (error) {
      write(note, error.name === "AbortError" ? "stopped" : `The request failed: ${error.message}`);
    } finally {
      send.disabled = false;
      stop.hidden = true;
    }
  }
  stop.addEventListener("click", () => abort?.abort());
  form.addEventListener("input", refresh);
  form.addEventListener("change", refresh);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return { form, refresh };
}
