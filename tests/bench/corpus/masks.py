"""What of an answer is compared: all of it but what two runs of one build do not have in common."""

import json
import re

ANY = "…"
# Members of JSON documents that are masked, by the path of the request.
MEMBERS = [
    # The clock, memory that the process happens to use, and the name of the build.
    (r"/(info|version)(\?|$)", {"uptime_seconds", "memory_used_bytes", "revision"}),
    # Random identifiers, the clock, and measured times.
    (r"/(jobs|gemm|attention|conv2d|reduce|softmax)\b|{location}",
     {"id", "created", "expires", "queued_ms", "running_ms"}),
    # Measured times, the clock, and which requests met in one launch.
    (r"/v2/models/.*stats(\?|$)", {"ns", "last_inference", "execution_count"}),
]
# Parts of a problem's sentence that say how far the device had come, by the status of the answer.
PROGRESS = {504: rb"the deadline passed while [^\"]*", 409: rb"the job is (queued|running)"}
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


def names_of(entries):
    """The names of all members of a list of objects, without those that only some samples of the history have."""
    return sorted({name for entry in entries for name in entry} - {"latency", "stages_ms"})


def history(document):
    """The samples are of measured times, and a second has what happened to end in it."""
    samples = document["samples"]
    return document | {"samples": [names_of(samples), names_of(each["requests"] for each in samples),
                                   names_of(each["queue"] for each in samples)]}


def failures(document):
    """Of one second the daemon keeps 16 requests, and the slow ones depend on measured times."""
    return {name: names_of(value) if name == "failed" else ANY for name, value in document.items()}


def kernels(document):
    """The order is that of the measured times; a resident B counts once for the rows that meet in a launch."""
    seen = without(document, {"busy_seconds", "bytes"})
    return seen | {"kernels": sorted(seen["kernels"], key=json.dumps)}


DASHBOARD = {"/dashboard/history": history, "/dashboard/requests": failures, "/dashboard/kernels": kernels}


def metrics(text):
    """The comments of a page of metrics, and the names and labels of its series."""
    series = [line if line.startswith("#") else line.split(" # ")[0].rsplit(" ", 1)[0]
              for line in text.decode().splitlines()]
    return [re.sub(r'revision="[^"]*"', f'revision="{ANY}"', line) for line in series]


def job(document):
    """The description of a job without the time that it ran, which is there once the device has begun: a deadline
    or a deletion meets the job before or after that."""
    if isinstance(document, dict) and (document.get("status") == 504 or document.get("state") == "cancelled"):
        return {name: value for name, value in document.items() if name != "running_ms"}
    return document


def members(path):
    """The names of the members that are masked in a JSON document at the path."""
    return next((names for pattern, names in MEMBERS if re.match(pattern, path)), set())


def body(request, answer, kind):
    """The body as it is compared; as it is, if nothing of it is masked."""
    path = request.path.partition("?")[0]
    if path == "/metrics" and answer.status == 200:
        return metrics(answer.body)
    if "json" not in kind:
        return answer.body
    names, text = members(request.path), answer.body
    if "problem" in kind:
        names = {"request_id"} if request.id is None else set()
        if answer.status in PROGRESS:
            text = re.sub(PROGRESS[answer.status], ANY.encode(), text)
    if not names and path not in DASHBOARD and text == answer.body:
        return text
    try:
        document = json.loads(text)
    except ValueError:
        return text
    if path in DASHBOARD and "problem" not in kind:
        return DASHBOARD[path](document)
    return without(job(document), names)


def comparable(request, answer, crowded=False):
    """An answer as (status, headers, body), equal for two answers exactly if they count as the same."""
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    seen = body(request, answer, kind)
    headers = [(name, header(name, value, request, crowded)) for name, value in answer.headers]
    path = request.path.partition("?")[0]
    masked_at_all = path == "/metrics" or path in DASHBOARD or members(request.path)
    if not isinstance(seen, bytes) or (request.method == "HEAD" and masked_at_all):  # digits of what is masked
        headers = [(name, ANY if name.lower() in ("content-length", "content-digest", "repr-digest") else value)
                   for name, value in headers]
    return answer.status, headers, seen
