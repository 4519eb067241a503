/* Values that fit a schema, for the first request that a form sends. */

/* What the forms begin with, where the document's own examples would not make a whole request. */
const FIRST = {
  gemm: { m: "2", n: "2", k: "3" },
  attention: { heads: "1", sq: "2", d: "4", dtype: "f32" },
  conv2d: { channels: "1", height: "3", width: "4", filters: "1", filter_h: "3", filter_w: "3", padding: "same" },
  reduce: { shape: "2,3" },
  softmax: { shape: "2,3" },
  experts: { m: "2", n: "2", k: "3", count: "2" },
  putTensor: { name: "W", shape: "3,2", dtype: "f32" },
  getTensor: { name: "W" },
  deleteTensor: { name: "W" },
};
const FIRST_OF_PATHS = { model: "gemm_fp32" };

function exampleOf(node, above = []) {
  const schema = resolve(node);
  if (above.includes(schema)) return null;
  if (schema.example !== undefined) return schema.example;
  if (schema.examples !== undefined) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const several = schema.oneOf ?? schema.anyOf;
  if (several !== undefined) return exampleOf(several[0], [...above, schema]);
  switch (schema.type) {
    case "object": {
      const wanted = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name));
      return Object.fromEntries(wanted.map(([name, value]) => [name, exampleOf(value, [...above, schema])]));
    }
    case "array": return schema.minItems > 0 ? [exampleOf(schema.items, [...above, schema])] : [];
    case "integer": case "number": return schema.minimum ?? 0;
    case "boolean": return false;
    case "string": return "";
    default: return null;
  }
}

/* The text that the form of an operation has for a parameter at first; "" leaves the parameter out. */
function firstValue(operation, parameter) {
  const own = FIRST[operation.operationId]?.[parameter.name];
  if (own !== undefined) return own;
  if (parameter.in !== "path") return "";
  const example = FIRST_OF_PATHS[parameter.name] ?? exampleOf(parameter.schema);
  return example === null ? "" : String(example);
}
