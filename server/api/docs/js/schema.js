/* The document, and its schemas in words. */

let api = null; /* the parsed openapi.json */

/* What a reference stands for; what is no reference stands for itself. */
function resolve(node) {
  for (let i = 0; node?.$ref !== undefined && i < 16; i++)
    node = node.$ref.slice(2).split("/").reduce((at, key) => at?.[key.replace(/~1/g, "/").replace(/~0/g, "~")], api);
  return node ?? {};
}

const nameOf = (node) => node?.$ref?.split("/").pop();

function rangeText(schema) {
  const from = schema.minimum ?? (schema.exclusiveMinimum !== undefined ? `more than ${schema.exclusiveMinimum}` : undefined);
  const to = schema.maximum;
  if (from !== undefined && to !== undefined) return `${from} … ${to}`;
  if (from !== undefined) return typeof from === "number" ? `at least ${from}` : from;
  return to !== undefined ? `at most ${to}` : "";
}

/* A schema as one line: "integer, 1 … 2147483647". */
function typeText(node) {
  const schema = resolve(node);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => String(value)).join(" | ");
  const several = schema.oneOf ?? schema.anyOf;
  if (several !== undefined) return several.map(typeText).join(" or ");
  if (schema.type === "array") return `array of ${schema.items === undefined ? "anything" : typeText(schema.items)}`;
  const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type ?? "any value";
  const parts = [schema.format === "binary" ? "bytes" : type];
  const range = rangeText(schema);
  if (range !== "") parts.push(range);
  if (schema.maxLength !== undefined) parts.push(`at most ${schema.maxLength} characters`);
  return parts.join(", ");
}

/* The type of a parameter or property, with its default, its pattern and an example. */
function typeLine(node) {
  const schema = resolve(node);
  const line = make("span", [typeText(schema)], "type");
  if (schema.default !== undefined) line.append("; default ", make("code", String(schema.default)));
  if (schema.pattern !== undefined) line.append("; matches ", make("code", schema.pattern));
  const example = schema.examples?.[0] ?? schema.example;
  if (example !== undefined && schema.enum === undefined)
    line.append("; for example ", make("code", typeof example === "string" ? example : JSON.stringify(example)));
  return line;
}

/* The properties of an object, and of objects inside it; null if it has none. `above` are the
 * schemas that it lies in, so that a schema that contains itself ends. */
function schemaTree(node, above = []) {
  const schema = resolve(node);
  if (above.includes(schema) || above.length > 6) return null;
  if (schema.type === "array" && schema.items !== undefined) return schemaTree(schema.items, [...above, schema]);
  const several = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (several !== undefined) {
    const trees = several.map((each) => schemaTree(each, [...above, schema])).filter((tree) => tree !== null);
    return trees.length > 0 ? make("div", trees) : null;
  }
  const properties = Object.entries(schema.properties ?? {});
  if (typeof schema.additionalProperties === "object") properties.push(["…", schema.additionalProperties]);
  if (properties.length === 0) return null;
  const list = make("ul", undefined, "tree");
  for (const [name, value] of properties) {
    const item = make("li", [make("code", name), " "]);
    if (schema.required?.includes(name)) item.append(make("span", "required", "required"), " ");
    item.append(typeLine(value));
    const description = resolve(value).description;
    if (description !== undefined) item.append(` ${description}`);
    const inside = schemaTree(value, [...above, schema]);
    if (inside !== null) item.append(inside);
    list.append(item);
  }
  return list;
}
