"""Alert rules, board and autoscaling query, asked of a real Prometheus that scrapes a real daemon."""

import json
import pathlib
import re
import subprocess
import threading
import time
import urllib.request

import pytest
import requests
import yaml

from conftest import DEPLOY, addresses, need, run
from patience import PATIENCE_S, wait_until

RULES = DEPLOY / "prometheus" / "gemmd.rules.yaml"
BOARD = DEPLOY / "grafana" / "gemmd.json"
SCALER = DEPLOY / "kubernetes" / "overlays" / "fleet" / "scaledobject.yaml"


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def board():
    return json.loads(BOARD.read_text())


def with_values(expression, of):
    """A query of the board with its variables replaced."""
    names = sorted((entry["name"] for entry in board()["templating"]["list"]), key=len, reverse=True)
    for name, value in (("__rate_interval", "1m"), *((name, ".*") for name in names)):
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression, f"{of}: a variable that the board does not have"
    return expression


def board_queries():
    """(title of the panel, expression) of every query of the board, with its variables replaced."""
    for panel in board()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], with_values(target["expr"], panel["title"])


def test_rules_pass_their_tests():
    need("promtool")
    run("promtool", "check", "rules", RULES)
    run("promtool", "test", "rules", RULES.with_suffix(".test.yaml"))


def test_every_rule_is_tested():
    text = RULES.with_suffix(".test.yaml").read_text()
    untested = [rule.get("alert") or rule["record"] for rule in rules()
                if not re.search(rf"(alertname|expr): {re.escape(rule.get('alert') or rule['record'])}\b",
                                 text)]
    # The alert GemmdSlow tests the rule that it asks.
    assert untested == ["gemmd:request_duration_seconds:p99_5m"]


def test_every_alert_says_what_to_do():
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("critical", "warning"), rule
            assert "for" in rule and rule["annotations"]["summary"] and rule["annotations"]["runbook"]


def test_alerts_lead_to_the_manual():
    """Each has a section there, which begins with the alert's sentence."""
    text = (DEPLOY / "OPERATING.md").read_text().split("\n## Alerts\n")[1].split("\n## ")[0]
    sections = dict(re.findall(r"^### (Gemmd\w+)\n\n(.*?)(?=\n\n### |\Z)", text, re.M | re.S))
    alerts = {rule["alert"]: rule["annotations"] for rule in rules() if "alert" in rule}
    assert list(sections) == list(alerts)
    manual = f"{addresses()['repository']}/blob/main/deploy/OPERATING.md"
    for name, annotations in alerts.items():
        assert annotations["runbook_url"] == f"{manual}#{name.lower()}"
        assert annotations["runbook"] in " ".join(sections[name].split()), name
    panels = {panel["title"] for panel in board()["panels"]}
    named = set(re.findall(r'"([^"]+)"', " ".join(" ".join(sections.values()).split()).replace(
        '("cannot reload")', "").replace('("this process goes on serving")', "")))
    assert len(named) > 8 and named <= panels, named - panels
    assert [link["url"] for link in board()["links"]] == [manual, f"{manual}#alerts"]


def test_thresholds_are_those_of_the_alerts():
    bounds = {rule["alert"]: set(map(float, re.findall(r"> ([\d.]+)(?!\))", rule["expr"])))
              for rule in rules() if "alert" in rule}
    found = {}
    for panel in board()["panels"]:
        for alert in re.findall(r"the alert (\w+) fires", panel.get("description", "")):
            red = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
                   if step["color"] == "red"]
            # A count is a whole number: 1 is the first one that is larger than 0.
            found[alert] = [{bound} == bounds[alert] or bound == 1 and bounds[alert] == {0} for bound in red]
    assert len(found) >= 7 and all(same == [True] for same in found.values()), found


def test_panels_have_a_unit_and_a_description():
    for panel in board()["panels"]:
        if panel["type"] in ("stat", "timeseries"):
            queries = [target["expr"] for target in panel["targets"]]
            unit = panel["fieldConfig"]["defaults"]["unit"]
            assert panel["description"], panel["title"]
            assert any("flops" in query for query in queries) == (unit == "flops"), panel["title"]
            bytes_alone = [re.fullmatch(r"(sum|max)?( by \(\w+\) )?\(?\w+_bytes\{[^}]*\}\)?", query) for query in queries]
            assert any(bytes_alone) == (unit == "bytes"), panel["title"]


def load(url, ended):
    """Products, attentions, jobs, tensors and refused requests, until `ended`."""
    ask, one = requests.Session(), b"\x00\x00\x80\x3f"
    ask.headers["Authorization"] = "Bearer of-a-client"
    while not ended.is_set():
        ask.post(f"{url}/gemm?m=1&n=1&k=1", one * 2)
        ask.post(f"{url}/gemm?m=256&n=256&k=256", bytes(2 * 4 * 256 * 256))
        ask.post(f"{url}/attention?heads=1&sq=4&skv=4&d=4&dtype=f32", bytes(3 * 64))
        ask.post(f"{url}/gemm?m=0&n=1&k=1", one)
        ask.put(f"{url}/tensors/B?dtype=f32&shape=1,1", one)
        ask.post(f"{url}/gemm?m=1&b=B", one)
        ask.post(f"{url}/gemm?m=1&b=nosuch", one)
        ask.post(f"{url}/gemm?m=1&n=1&k=1", one * 2, headers={"Prefer": "respond-async"})


@pytest.fixture(scope="module")
def query(request, tmp_path_factory):
    """Asks a Prometheus that scrapes a loaded daemon, as if the daemon were a pod of the namespace gemmd."""
    need("prometheus")
    from daemon import Daemon

    gemmd = pathlib.Path(request.config.getoption("--gemmd"))
    nvml = gemmd.parents[1] / "tests" / "nvml"  # in place of NVIDIA's library
    assert (nvml / "libnvidia-ml.so.1").exists(), "CMake builds it with -DGEMMD_TESTS=ON"
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "tokens").write_text("client:of-a-client\nprometheus:of-prometheus scopes=metrics\n")
    (folder / "tokens").chmod(0o600)
    daemon = Daemon(gemmd, "--backend", "cpu", "--pinned-bytes", "256M",
                    "--token-file", str(folder / "tokens"), "--metrics-tenant", "prometheus",
                    "--device-bytes", "256M", "--tensor-bytes", "16M", "--verify-share", "0.1",
                    "--gpu-metrics", "all", environment={"LD_LIBRARY_PATH": str(nvml)})
    daemon.wait_until_listening().wait_until_ready()
    ended = threading.Event()
    loader = threading.Thread(target=load, args=(daemon.url, ended))
    loader.start()
    # A scrape may take as long as the interval between two.
    settings = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "250ms"},
                "rule_files": [str(RULES)],
                "scrape_configs": [{"job_name": "gemmd", "authorization": {"credentials": "of-prometheus"},
                                    "static_configs": [
                    {"targets": ["%s:%d" % daemon.address],
                     "labels": {"namespace": "gemmd", "service": "gemmd", "pod": "gemmd-0"}}]}]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    log = (folder / "log").open("w+")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={folder / 'prometheus.yml'}",
         f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0",
         "--log.level=info"], stdout=log, stderr=log)

    def listening():
        assert process.poll() is None, (folder / "log").read_text()
        return re.search(r"msg=\"Listening on\" address=(\S+)", (folder / "log").read_text())

    url = f"http://{wait_until(listening, 'Prometheus to listen')[1]}"

    def query(expression):
        target = f"{url}/api/v1/query?query=" + urllib.request.quote(expression)
        with urllib.request.urlopen(target, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]["result"]

    try:
        wait_until(lambda: answers(query, "rate(gemmd_requests_total[1m])"), (folder / "log").read_text)
        yield query
    finally:
        ended.set()
        loader.join()
        process.terminate()
        process.wait(PATIENCE_S)
        log.close()
        daemon.stop()


def answers(query, expression):
    try:
        return any(entry["value"][1] != "NaN" for entry in query(expression))
    except OSError:
        return False


def wait_for_data(query, expressions):
    """Waits until every expression has data; returns those that have none."""
    deadline = time.monotonic() + PATIENCE_S
    left = list(expressions)
    while left and time.monotonic() < deadline:
        left = [expression for expression in left if not answers(query, expression)]
        if left:
            time.sleep(0.2)
    return left


def test_every_query_of_the_board_returns_data(query):
    queries = dict((expression, title) for title, expression in board_queries())
    assert len(queries) > 50
    assert [queries[expression] for expression in wait_for_data(query, queries)] == []


def test_the_variables_of_the_board_have_values(query):
    for variable in board()["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            selected = with_values(f"count by ({label}) ({series})", variable["name"])
            assert wait_for_data(query, [selected]) == []
            assert all(label in entry["metric"] for entry in query(selected)), variable["name"]
            used = [panel["title"] for panel in board()["panels"]
                    if f"${variable['name']}" in json.dumps(panel.get("targets"))]
            assert used, f"no panel depends on {variable['name']}"


def test_the_annotations_of_the_board(query):
    """The start of the daemon, which is not in the future; the daemon does not shut down, and was not upgraded."""
    asked = {entry["name"]: with_values(entry["expr"], entry["name"]) for entry in board()["annotations"]["list"]}
    assert set(asked) == {"Starts", "Drains", "Upgrades"}
    assert wait_for_data(query, [asked["Starts"]]) == []
    [start] = query(asked["Starts"])
    assert 0 < float(start["value"][1]) <= 1000 * time.time()
    assert wait_for_data(query, [asked["Drains"].replace("== 1", "== 0")]) == []
    assert query(asked["Drains"]) == []
    serving, unless, before = asked["Upgrades"].partition(" unless ")
    assert unless and before == serving.replace("})", "} offset 2m)")
    assert wait_for_data(query, [serving]) == []
    query(asked["Upgrades"])  # which has data for the first two minutes


def test_every_recording_rule_returns_data(query):
    assert wait_for_data(query, [rule["expr"] for rule in rules() if "record" in rule]) == []


def test_every_alert_asks_for_series_that_exist(query):
    names = set()
    for rule in rules():
        if "alert" in rule:
            names |= set(re.findall(r"\b(?:gemmd_|process_|gemmd:)[\w:]+", rule["expr"])) - {"gemmd_"}
    recorded = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
    # The scraped daemon has neither a certificate nor several devices, and no handover has failed.
    names -= {"gemmd_tls_certificate_expiry_timestamp_seconds", "gemmd_per_device_lost",
              "gemmd_handover_failures_total"}
    assert wait_for_data(query, [recorded.get(name, f"count({name})") for name in names]) == []


def test_no_critical_alert_fires_for_a_healthy_daemon(query):
    """A scrape that is late on a loaded machine lets an alert wait, but not for as long as it must to fire."""
    wait_for_data(query, ["gemmd_ready"])
    for rule in rules():
        if rule.get("labels", {}).get("severity") == "critical":
            wait_until(lambda asked=rule["expr"]: query(asked) == [], f"no answer to the query of {rule['alert']}")


def test_the_autoscaler_query_returns_one_number(query):
    triggers = [trigger for trigger in yaml.safe_load(SCALER.read_text())["spec"]["triggers"]
                if trigger["type"] == "prometheus"]
    assert triggers
    for trigger in triggers:
        assert wait_for_data(query, [trigger["metadata"]["query"]]) == []
        assert len(query(trigger["metadata"]["query"])) == 1
        float(trigger["metadata"]["threshold"])
