/* An operation as it is read: parameters, body, answers, and its form. */

const entry = (term, ...says) => make("div", [make("dt", term), make("dd", says)]);

function parameterEntry(parameter) {
  const term = [make("code", parameter.name), " ", make("small", parameter.in)];
  if (parameter.required) term.push(" ", make("span", "required", "required"));
  const says = [make("div", typeLine(parameter.schema))];
  const description = parameter.description ?? resolve(parameter.schema).description;
  if (description !== undefined) says.unshift(make("div", description));
  return entry(term, ...says);
}

/* A media type with its schema. */
function contentEntry([type, media]) {
  const schema = resolve(media.schema);
  const says = [make("div", schema.description ?? typeText(schema))];
  const tree = schemaTree(media.schema);
  if (tree !== null) says.push(fold("members", [tree]));
  return entry([make("code", type)], ...says);
}

function answerEntry([status, node]) {
  const response = resolve(node);
  const term = make("span", status === "default" ? "other" : status, `status s${/^\d/.test(status) ? status[0] : "4"}`);
  const says = [make("div", response.description)];
  const headers = Object.entries(response.headers ?? {});
  if (headers.length > 0)
    says.push(fold(headers.length === 1 ? "1 header" : `${headers.length} headers`, [make("ul", headers.map(([name, header]) =>
      make("li", [make("code", name), " ", typeLine(resolve(header).schema), ` ${resolve(header).description ?? ""}`])), "tree")]));
  for (const [type, media] of Object.entries(response.content ?? {})) {
    const schema = resolve(media.schema);
    const tree = schemaTree(media.schema);
    const line = make("div", [make("code", type), " "], "type");
    if (schema.description !== undefined && schema.description !== response.description) line.append(schema.description);
    says.push(line);
    if (tree !== null) says.push(fold("members", [tree]));
  }
  return entry([term], ...says);
}

function tokenLine(operation) {
  const security = operation.security ?? api.security ?? [];
  return security.length === 0 ? "Needs no token, even if the daemon requires tokens." :
    "Needs a token if the daemon requires tokens.";
}

function fillOperation(inside, path, method, operation, item) {
  const parameters = parametersOf(operation, item);
  const aim = make("button", "Try it", "aim");
  inside.append(aim);
  if (operation.description !== undefined) inside.append(make("p", operation.description));
  inside.append(make("p", tokenLine(operation), "note"));
  if (parameters.length > 0)
    inside.append(make("h4", "Parameters"), make("dl", parameters.map(parameterEntry), "list"));
  const content = resolve(operation.requestBody).content;
  if (content !== undefined)
    inside.append(make("h4", "Body"), make("dl", Object.entries(content).map(contentEntry), "list"));
  inside.append(make("h4", "Answers"), make("dl", Object.entries(operation.responses).map(answerEntry), "list"));
  const { form, refresh } = tryForm(path, method.toUpperCase(), operation, item);
  aim.addEventListener("click", () => {
    form.scrollIntoView();
    form.querySelector("input, select, textarea, .send").focus({ preventScroll: true });
  });
  inside.append(form);
  refresh();
}

/* An operation, closed; its inside is made when it is opened first. */
function operationElement(path, method, operation, item) {
  const title = make("h3", pathText(path));
  const summary = make("summary", [make("span", method.toUpperCase(), "method"), title, make("span", operation.summary ?? "", "says")]);
  const inside = make("div", undefined, "inside");
  const element = make("details", [summary, inside], `operation ${method}`);
  element.id = `op-${operation.operationId}`; /* the page has ids of its own */
  element.addEventListener("toggle", () => {
    if (element.open && inside.childElementCount === 0) fillOperation(inside, path, method, operation, item);
  });
  return element;
}
