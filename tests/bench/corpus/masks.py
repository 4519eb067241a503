"""What of an answer is compared: all of it but what two runs of one build do not have in common."""

import json
import re
import zlib

ANY = "…"
# Members of JSON documents that are masked, by the path of the request.
MEMBERS = [
    # The clock, memory that the process happens to use, and the name of the build.
    (r"/(info|version)(\?|$)", {"uptime_seconds", "memory_used_bytes", "revision"}),
    # Random identifiers, the clock, and measured times.
    (r"/(jobs|gemm|attention|conv2d|reduce|softmax)\b|{location}",
     {"id", "created", "expires", "queued_ms", "running_ms"}),
    # The name of the shared memory object, of which each daemon has its own.
    (r"/v2/systemsharedmemory/", {"key"}),
    # Measured times, the clock, and which requests met in one launch.
    (r"/v2/models/.*stats(\?|$)", {"ns", "last_inference", "execution_count"}),
]
# Parts of a problem's sentence that say how far the device had come, by the status of the answer.
PROGRESS = {504: rb"the deadline passed while [^\"]*", 409: rb"the job is (queued|running)"}


def names_itself(request):
    """Whether the daemon takes the identifier that the request has. Of two, it takes neither."""
    return request.id is not None and "X-Request-Id" not in request.headers


def header(name, value, request, crowded):
    low = name.lower()
    if low in ("date", "retry-after"):  # the clock; an estimate to which the daemon adds a random part
        return ANY
    if low == "server-timing":
        return re.sub(r"dur=[0-9.]+", "dur=" + ANY, value)
    if low == "gemmd-verify":  # the check draws a random vector
        return re.sub(r"residual=[-+.e0-9]+", "residual=" + ANY, value)
    if low == "x-request-id" and not names_itself(request):
        return ANY
    if low == "gemmd-batch" and crowded:  # which requests met in the queue
        return ANY
    if low == "location":  # the identifier of a job
        return re.sub(r"[0-9a-f]{32}", ANY, value)
    return value


def without(text, names):
    """JSON with the values of some members masked, where they are numbers or strings. All else is as it was."""
    choice = "|".join(sorted(names))
    return re.sub(rf'"({choice})"(:\s*)("[^"]*"|[-+.0-9e]+)'.encode(), rb'"\1"\2' + ANY.encode(), text)


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
    measured = ("busy_seconds", "bytes")
    return document | {"kernels": sorted(([(name, ANY if name in measured else value) for name, value in kernel.items()]
                                          for kernel in document["kernels"]), key=str)}


DASHBOARD = {"/dashboard/history": history, "/dashboard/requests": failures, "/dashboard/kernels": kernels}


def metrics(text):
    """The comments of a page of metrics, and the names and labels of its series."""
    series = [line if line.startswith("#") else line.split(" # ")[0].rsplit(" ", 1)[0]
              for line in text.decode().splitlines()]
    return re.sub(r'revision="[^"]*"', f'revision="{ANY}"', "\n".join(series)).encode()


def job(text):
    """The description of a job without the time that it ran, which is there once the device has begun: a deadline
    or a deletion meets the job before or after that."""
    if re.search(rb'"state":"cancelled"|"status":504', text):
        return re.sub(rb',"running_ms":[.0-9]+', b"", text)
    return text


def members(path):
    """The names of the members that are masked in a JSON document at the path."""
    return next((names for pattern, names in MEMBERS if re.match(pattern, path)), set())


def body(request, answer, kind):
    """The body as it is compared; as it is, if nothing of it is masked."""
    path = request.path.partition("?")[0]
    coding = next((value for name, value in answer.headers if name == "Content-Encoding"), None)
    text = zlib.decompress(answer.body, 47) if coding and answer.body else answer.body  # 47: gzip or zlib
    if path == "/metrics" and answer.status == 200 and request.method != "HEAD":
        return metrics(text)
    if "json" not in kind:
        return answer.body
    if "problem" in kind:
        text = re.sub(PROGRESS.get(answer.status, rb"(?!)"), ANY.encode(), text)
        text = re.sub(rb"there is no job '[0-9a-f]{32}'", b"there is no job " + ANY.encode(), text)
        return text if names_itself(request) else without(text, {"request_id"})
    if path in DASHBOARD:
        return json.dumps(DASHBOARD[path](json.loads(text))).encode() if text else text
    names = members(request.path)
    return without(job(text), names) if names else answer.body


def comparable(request, answer, crowded=False):
    """An answer as (status, headers, body), equal for two answers exactly if they count as the same."""
    kind = next((value for name, value in answer.headers if name.lower() == "content-type"), "")
    seen = body(request, answer, kind)
    headers = [(name, header(name, value, request, crowded)) for name, value in answer.headers]
    path = request.path.partition("?")[0]
    masked_at_all = path == "/metrics" or path in DASHBOARD or members(request.path)
    if seen != answer.body or (request.method == "HEAD" and masked_at_all):  # digits of what is masked
        headers = [(name, ANY if name.lower() in ("content-length", "content-digest", "repr-digest") else value)
                   for name, value in headers]
    return answer.status, headers, seen
