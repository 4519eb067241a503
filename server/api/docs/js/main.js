/* Reads the document, shows it, and finds operations in it. */

const METHODS = ["get", "put", "post", "delete"];
let shown = []; /* { element, link, group, words } of each operation */

function* operationsOf(tag) {
  for (const [path, item] of Object.entries(api.paths))
    for (const method of METHODS)
      if (item[method]?.tags?.includes(tag)) yield [path, method, item[method], item];
}

function showGroup(tag) {
  const list = make("ul");
  const group = make("section", [make("h2", tag.name), make("p", tag.description ?? "")], "group");
  const index = make("div", [make("h2", tag.name), list]);
  group.setAttribute("aria-label", tag.name);
  for (const [path, method, operation, item] of operationsOf(tag.name)) {
    const element = operationElement(path, method, operation, item);
    const link = make("a", [make("span", method.toUpperCase(), "method"), pathText(path)], method);
    link.href = `#op-${operation.operationId}`;
    const place = make("li", link);
    list.append(place);
    group.append(element);
    shown.push({ element, place, group, index,
      words: `${method} ${path} ${operation.operationId} ${operation.summary ?? ""} ${tag.name}`.toLowerCase() });
  }
  $("groups").append(group);
  $("index").append(index);
}

function showProse() {
  $("prose").replaceChildren(make("p", api.info.description ?? ""),
    make("p", ["An error is a problem document (RFC 9457): ", make("code", "type"), " and ", make("code", "status"),
      " say which error it is, ", make("code", "detail"), " says in a sentence what was wrong and what is allowed, and ",
      make("code", "request_id"), " names the request in the daemon's log."]));
  if (api.externalDocs !== undefined) {
    const manuals = make("a", api.externalDocs.description ?? api.externalDocs.url);
    manuals.href = api.externalDocs.url;
    manuals.rel = "noreferrer";
    $("prose").append(make("p", [manuals, ", which a package also installs in ", make("code", "/usr/share/doc/gemmd"), "."]));
  }
  const tree = schemaTree({ $ref: "#/components/schemas/Problem" });
  if (tree !== null) $("prose").append(fold("Members of a problem document", [tree]));
}

function show() {
  write($("version"), api.info.version);
  write($("summary"), api.info.summary ?? "");
  shown = [];
  $("groups").replaceChildren();
  $("index").replaceChildren();
  showProse();
  for (const tag of api.tags) showGroup(tag);
  $("show").hidden = true;
  $("page").hidden = false;
  find();
  follow();
}

function find() {
  const words = $("filter").value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const groups = new Map();
  for (const each of shown) {
    const matches = words.every((word) => each.words.includes(word));
    each.element.hidden = each.place.hidden = !matches;
    groups.set(each.group, [each.index, matches || groups.get(each.group)?.[1] === true]);
  }
  for (const [group, [index, any]] of groups) group.hidden = index.hidden = !any;
  $("none").hidden = shown.some((each) => !each.element.hidden);
}

/* Opens the operation that the address names. */
function follow() {
  const element = shown.find((each) => `#${each.element.id}` === location.hash)?.element;
  if (element === undefined) return;
  element.open = true;
  element.querySelector("summary").focus({ preventScroll: true });
  element.scrollIntoView();
}

function refuse(sentence) {
  $("ask").classList.add("wrong");
  write($("ask-why"), sentence);
  $("show").hidden = false;
}

async function load() {
  const headers = token() === "" ? {} : { Authorization: `Bearer ${token()}` };
  try {
    const answer = await fetch("openapi.json", { headers, credentials: "omit" });
    if (answer.status === 401) {
      refuse(token() === "" ? "This daemon requires a token. The page sends the token to this daemon only, and forgets it when the page is closed." :
        "The daemon does not know this token.");
      $("token").focus();
      return;
    }
    if (!answer.ok) throw new Error(`/openapi.json answers ${answer.status}`);
    api = await answer.json();
  } catch (error) {
    refuse(`The daemon's description could not be read: ${error.message}`);
    return;
  }
  $("ask").classList.remove("wrong");
  if (token() !== "") write($("ask-why"), "The token is sent with each request to this daemon, and forgotten when the page is closed.");
  show();
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  load();
});
$("filter").addEventListener("input", find);
window.addEventListener("hashchange", follow);
/* A link to the operation that the address names already changes nothing. */
$("index").addEventListener("click", (event) => {
  if (event.target.closest("a")?.hash === location.hash) follow();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  $("filter").focus();
});
load();
