"""What of an answer is compared: all of it but what two runs of one build do not have in common."""

import json
import re

ANY = "…"
# Members of JSON documents that are masked, by the path of the request.
MEMBERS = [
    # The clock, memory that the process happens to use, and the name of the build.
    (r"/(info|version)$", {"uptime_seconds", "memory_used_bytes", "revision"}),
    # Random identifiers, the clock, and measured times.
    (r"/(jobs|gemm|attention|conv2d|reduce|softmax)\b", {"id", "created", "expires", "queued_ms", "running_ms"}),
    # Measured times, the clock, and which requests met in one launch.
    (r"/v2/models/.*stats$", {"ns", "last_inference", "execution_count"}),
]
# Documents of measured times: of these, only the members and the types of their values are compared.
MEASURED = re.compile(r"/dashboard/(history|requests|kernels)")


def header(name, value, request, crowded):
    low = name.lower()
    if low in ("date", "retry-after"):  # the clock; an estimate to which the daemon adds a random part
        return ANY
    if low == "server-timing":
        return re.sub(r"dur=[0-9.]+", "dur=" + ANY, value)
    if low == "gemmd-verify":  # the check draws a random vector
        return re.sub(r"residual=[-+.e0-9]+", "residual=" + ANY, value)
    if low == "x-request-id" and request.id is None:
        return ANY
    if low == "gemmd-batch" and crowded:  # which requests met in the queue
        return ANY
    if low == "location":  # the identifier of a job
        return re.sub(r"[0-9a-f]{32}", ANY, value)
    return value


def without(document, names):
    """A JSON document with the values of some members masked."""
    if isinstance(document, dict):
        return {name: ANY if name in names else without(value, names) for name, value in document.items()}
    if isinstance(document, list):
        return [without(value, names) for value in document]
    return document


def shape(document):
    """What a JSON document has, without its values."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list):
        return sorted({json.dumps(shape(value)) for value in document})
    return "number" if isinstance(document, (int, float)) else type(document).__name__


def metrics(text):
    """The comments of a page of metrics, and the names and labels of its series."""
    series = [line if line.startswith("#") else line.rsplit(" ", 1)[0] for line in text.decode().splitlines()]
    return [re.sub(r'revision="[^"]*"', f'revision="{ANY}"', line) for line in series]


def body(request, answer, kind):
    """The body as it is compared; as it is, if nothing of it is masked."""
    if request.path.startswith("/metrics") and answer.status == 200:
        return metrics(answer.body)
    if "json" not in kind:
        return answer.body
    names = {"request_id"} if request.id is None and "problem" in kind else set()
    if "problem" not in kind:
        for pattern, members in MEMBERS:
            if re.match(pattern, request.path):
                names |= members
    measured = MEASURED.match(request.path)
    if not names and not measured:
        return answer.body
    try:
        document = json.loads(answer.body)
    except ValueError:
        return answer.body
    return shape(document) if measured else without(document, names)


def comparable(request, answer, crowded=False):
    """An answer as (status, headers, body), equal for two answers exactly if they count as the same."""
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    seen = body(request, answer, kind)
    whole = isinstance(seen, bytes)
    headers = [(name, header(name, value, request, crowded)) for name, value in answer.headers]
    if not whole:  # digits of what is masked
        headers = [(name, ANY if name.lower() in ("content-length", "content-digest", "repr-digest") else value)
                   for name, value in headers]
    return answer.status, headers, seen
