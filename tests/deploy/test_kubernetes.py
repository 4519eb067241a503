"""The Kubernetes manifests: rendered by kubectl, validated against published schemas, and held to what
the daemon itself says of its options."""

import importlib
import json
import os
import re
import zipfile

import jsonschema_rs
import pytest
import yaml

from conftest import DEPLOY, ROOT, need, run
from fleet import CONFIGURATION

KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
# The restricted profile of Kubernetes' Pod Security Standards.
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
              "capabilities": {"drop": ["ALL"]}}
SIZES = {"K": 2**10, "M": 2**20, "G": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
POD = "io.k8s.api.core.v1.PodSpec"


def render(overlay):
    need("kubectl")
    return run("kubectl", "kustomize", KUBERNETES / "overlays" / overlay)


def documents(overlay):
    return [entry for entry in
            yaml.safe_load_all((KUBERNETES / "rendered" / f"{overlay}.yaml").read_text()) if entry]


def by_name(overlay):
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in documents(overlay)}


def pods():
    """(overlay, specification) of every pod."""
    for overlay in OVERLAYS:
        for entry in documents(overlay):
            if entry["kind"] == "Deployment":
                yield overlay, entry["spec"]["template"]["spec"]
            elif entry["kind"] == "ClusterServingRuntime":
                yield overlay, entry["spec"]


def containers():
    """The pods of the daemon."""
    return ((overlay, pod) for overlay, pod in pods() if pod["containers"][0]["name"] != "haproxy")


@pytest.fixture(scope="module")
def schemas():
    """name -> strict schema of Kubernetes' newest published version, from the wheel."""
    wheels = sorted((ROOT / "build-tests" / "kubernetes-schemas").glob("kubernetes_validate-*.whl"))
    if not wheels:
        pytest.skip("tests/run.sh deploy downloads the schemas")
    archive = zipfile.ZipFile(wheels[-1])
    folders = {name.split("/")[2] for name in archive.namelist()
               if "/kubernetes-json-schema/" in name and "-strict/" in name}
    newest = max(folders, key=lambda name: [int(part) for part in re.findall(r"\d+", name)])
    base = f"kubernetes_validate/kubernetes-json-schema/{newest}/"

    def read(name):
        text = archive.read(base + name).decode()
        return json.loads(text.replace('"/api/_definitions.json#', '"#'))

    definitions = read("_definitions.json")

    def schema(name):
        if name in definitions["$defs"]:
            return {"$ref": f"#/$defs/{name}", "$defs": definitions["$defs"]}
        return {**read(name), "$defs": definitions["$defs"]}

    return schema


def faults(schema, instance):
    return [f"{'/'.join(map(str, error.instance_path))}: {error.message}"
            for error in jsonschema_rs.Draft7Validator(schema).iter_errors(instance)]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_committed_render_is_what_kubectl_renders(overlay):
    assert (KUBERNETES / "rendered" / f"{overlay}.yaml").read_text() == render(overlay), (
        f"write it with: kubectl kustomize deploy/kubernetes/overlays/{overlay} "
        f"> deploy/kubernetes/rendered/{overlay}.yaml")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_own_kinds_are_valid(overlay, schemas):
    custom = {"ServiceMonitor", "PrometheusRule", "ScaledObject", "ClusterServingRuntime"}
    for entry in documents(overlay):
        if entry["kind"] not in custom:
            group, _, version = entry["apiVersion"].rpartition("/")
            name = "-".join(filter(None, (entry["kind"].lower(), group.split(".")[0], version)))
            assert faults(schemas(f"{name}.json"), entry) == [], f"{overlay}: {name}"


def test_a_wrong_manifest_is_noticed(schemas):
    good = next(entry for entry in documents("cpu") if entry["kind"] == "Deployment")
    schema = schemas("deployment-apps-v1.json")
    assert faults(schema, good) == []
    for path, value in ((("spec", "nosuch"), 1), (("spec", "minReadySeconds"), "soon"),
                        (("spec", "template", "spec", "containers"), {})):
        wrong = json.loads(json.dumps(good))
        place = wrong
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        assert faults(schema, wrong) != [], path


def check_model(module, entry):
    """Reads a resource into its published model: a field of the wrong type fails, and a field that the
    model does not have is missing in what the model writes."""
    kind = getattr(importlib.import_module(module), entry["kind"])
    model = kind.model_validate(entry)
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True)["spec"] == entry["spec"]


def test_custom_resources_match_their_published_models():
    pytest.importorskip("cloudcoil")
    fleet = by_name("fleet")
    check_model("cloudcoil.models.keda.v1alpha1", fleet["ScaledObject", "gemmd"])
    for kind, name in (("ServiceMonitor", "gemmd"), ("ServiceMonitor", "gemmd-haproxy"), ("PrometheusRule", "gemmd")):
        check_model("cloudcoil.models.prometheus_operator.v1", fleet[kind, name])
    with pytest.raises(AssertionError):
        wrong = json.loads(json.dumps(fleet["ScaledObject", "gemmd"]))
        wrong["spec"]["minReplicas"] = 1
        check_model("cloudcoil.models.keda.v1alpha1", wrong)


def test_the_serving_runtime_matches_kserves_model(schemas):
    spec = pytest.importorskip("kserve.models.v1alpha1_serving_runtime_spec")
    formats = importlib.import_module("kserve.models.v1alpha1_supported_model_format")
    [runtime] = documents("kserve")
    known = set(spec.V1alpha1ServingRuntimeSpec.attribute_map.values())
    assert set(runtime["spec"]) <= known
    for entry in runtime["spec"]["supportedModelFormats"]:
        assert set(entry) <= set(formats.V1alpha1SupportedModelFormat.attribute_map.values())
    pod = {key: runtime["spec"][key] for key in ("containers", "tolerations")}
    assert faults(schemas(POD), pod) == []


def test_the_inference_service_matches_kserves_model_and_the_runtime():
    predictors = importlib.import_module(
        pytest.importorskip("kserve.models.v1beta1_predictor_spec").__name__).V1beta1PredictorSpec
    models = importlib.import_module("kserve.models.v1beta1_model_spec").V1beta1ModelSpec
    service = yaml.safe_load((KUBERNETES / "examples" / "inferenceservice.yaml").read_text())
    predictor, [runtime] = service["spec"]["predictor"], documents("kserve")
    assert set(predictor) <= set(predictors.attribute_map.values())
    assert set(predictor["model"]) <= set(models.attribute_map.values())
    assert predictor["model"]["runtime"] == runtime["metadata"]["name"]
    assert predictor["model"]["protocolVersion"] in runtime["spec"]["protocolVersions"]
    formats = [entry["name"] for entry in runtime["spec"]["supportedModelFormats"]]
    assert predictor["model"]["modelFormat"]["name"] in formats
    # Its pods have as long to drain as those of the other overlays.
    [base] = [pod for overlay, pod in containers() if overlay == "cuda"]
    assert predictor["terminationGracePeriodSeconds"] == base["terminationGracePeriodSeconds"]


def test_the_route_leads_to_a_service():
    route = yaml.safe_load((KUBERNETES / "examples" / "httproute.yaml").read_text())
    [backend] = [backend for rule in route["spec"]["rules"] for backend in rule["backendRefs"]]
    text = (KUBERNETES / "examples" / "httproute.yaml").read_text()
    for name in (backend["name"], re.search(r"name: (gemmd-\w+)", text)[1]):
        service = by_name("fleet")["Service", name]
        assert service["metadata"]["namespace"] == route["metadata"]["namespace"]
        assert backend["port"] in [port["port"] for port in service["spec"]["ports"]]


def test_the_operator_has_the_rules_of_prometheus():
    rules = yaml.safe_load((DEPLOY / "prometheus" / "gemmd.rules.yaml").read_text())
    made = yaml.safe_load((KUBERNETES / "monitoring" / "prometheusrule.yaml").read_text())
    assert made["spec"] == rules, (
        "write the lines after `spec:` with: sed -e '/^#/d' -e 's/^./  &/' deploy/prometheus/gemmd.rules.yaml")


def test_grafana_finds_the_board():
    need("kubectl")
    board = yaml.safe_load(run("kubectl", "kustomize", DEPLOY / "grafana"))
    assert board["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert board["data"] == {"gemmd.json": (DEPLOY / "grafana" / "gemmd.json").read_text()}
    # `kubectl apply` keeps a copy of what it applies in an annotation, which may have this many bytes.
    assert len(json.dumps(board)) < 262144


def test_haproxy_has_places_for_all_pods():
    need("haproxy")
    fleet = by_name("fleet")
    [container] = fleet["Deployment", "gemmd-haproxy"]["spec"]["template"]["spec"]["containers"]
    [configuration] = [entry["data"]["haproxy.cfg"] for entry in documents("fleet") if entry["kind"] == "ConfigMap"]
    assert configuration == CONFIGURATION.read_text()
    variables = {entry["name"]: entry["value"] for entry in container["env"]}
    run("haproxy", "-c", "-dW", "-f", CONFIGURATION, env={**os.environ, **variables})
    places = [int(count) for count in re.findall(r"server-template gemmd 1-(\d+) ", configuration)]
    assert len(places) == 2 and min(places) >= fleet["ScaledObject", "gemmd"]["spec"]["maxReplicaCount"]
    # The name is that of the Service without an address of its own, whose port is the daemon's.
    name, _, port = variables["GEMMD_PODS"].partition(":")
    assert fleet["Service", name]["spec"]["clusterIP"] == "None"
    assert int(port) == fleet["Deployment", "gemmd"]["spec"]["template"]["spec"]["containers"][0]["ports"][0][
        "containerPort"]
    binds = {int(port) for port in re.findall(r"^    bind :(\d+)$", configuration, re.M)}
    assert binds == {port["containerPort"] for port in container["ports"]}
    # A proxy that ends waits for the longest request.
    assert fleet["Deployment", "gemmd-haproxy"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > 610


def test_the_daemon_accepts_the_options_of_every_container(request):
    """The values are those in force: a limit that does not fit in another ends the check."""
    for overlay, pod in containers():
        [container] = pod["containers"]
        options = json.loads(run(request.config.getoption("--gemmd"), *container["args"],
                                 "--check-config"))
        assert options["listen"] == ["0.0.0.0:8080"], overlay
        limit = container["resources"]["limits"]["memory"]
        limit = int(limit[:-2]) * SIZES[limit[-2:]]
        host = [options["pinned-bytes"], options["job-bytes"]]
        if options["backend"] == "cpu":
            host += [options["device-bytes"], options["tensor-bytes"]]
        assert sum(map(size, host)) + 2**29 <= limit, overlay
        # The pod is not killed while the daemon drains.
        if "terminationGracePeriodSeconds" in pod:
            drain = milliseconds(options["drain-delay"]) + milliseconds(options["drain-timeout"])
            assert drain + 5000 <= 1000 * pod["terminationGracePeriodSeconds"], overlay


def size(value):
    found = re.fullmatch(r"(\d+)([KMGT]?)(?:iB)?", str(value))
    return int(found.group(1)) * SIZES.get(found.group(2), 1)


def milliseconds(value):
    found = re.fullmatch(r"(\d+)(ms|s|m|h)?", str(value))
    return int(found.group(1)) * {"s": 1000, "m": 60000, "h": 3600000}.get(found.group(2), 1)


def test_every_container_is_restricted():
    for overlay, pod in pods():
        [container] = pod["containers"]
        context = {**pod.get("securityContext", {}), **container["securityContext"]}
        assert RESTRICTED.items() <= context.items(), overlay
        assert context["runAsNonRoot"] and context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_daemon_can_read_a_secret_that_only_a_group_may_read():
    for overlay, pod in containers():
        if overlay != "kserve":
            context = pod["securityContext"]
            assert context["fsGroup"] == context["runAsGroup"], overlay


def test_images_are_targets_of_the_containerfile():
    targets = re.findall(r"^FROM scratch AS (\w+)", (DEPLOY / "container" / "Containerfile").read_text(),
                         re.M)
    for overlay, pod in containers():
        kind = "cpu" if overlay == "cpu" else "cuda"
        assert pod["containers"][0]["image"] == f"gemmd:{kind}" and kind in targets, overlay


def test_probes_ask_paths_that_the_daemon_serves(daemon):
    for overlay, pod in containers():
        [container] = pod["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if probe in container:
                path = container[probe]["httpGet"]["path"]
                assert daemon.session.get(daemon.url + path).status_code == 200, (overlay, path)


def test_selectors_find_the_pods():
    """Those of the Deployment of the same name, and no others."""
    for overlay in OVERLAYS:
        entries = by_name(overlay)
        labels = {name: entry["spec"]["template"]["metadata"]["labels"]
                  for (kind, name), entry in entries.items() if kind == "Deployment"}
        for name in labels:
            wanted = [entries["Deployment", name]["spec"]["selector"]["matchLabels"],
                      entries["Service", name]["spec"]["selector"],
                      entries["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"],
                      entries["NetworkPolicy", name]["spec"]["podSelector"]["matchLabels"]]
            found = [[pod for pod, given in labels.items() if entry.items() <= given.items()] for entry in wanted]
            assert found == [[name]] * 4, (overlay, name)


# The values with which the chart makes what kustomize makes of an overlay.
CHART = {"cpu": {"backend": "cpu"}, "cuda": {}, "dra": {"dra": True},
         "fleet": {"haproxy": {"enabled": True}, "monitoring": {"enabled": True}, "autoscaling": {"enabled": True}}}


def render_chart(values, release="gemmd"):
    """What Helm makes of the chart, by kind and name."""
    helm = pytest.importorskip("helm_python")
    with helm.Chart.load(KUBERNETES / "chart") as chart:
        made = chart.render(values, name=release, namespace="gemmd")
    entries = [entry for text in made.values() for entry in yaml.safe_load_all(text) if entry]
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in entries}


def without_habits(entries):
    """Without what kustomize and Helm do in ways of their own: the namespace and some labels of resources, the hash of a
    ConfigMap, and a default."""
    entries = json.loads(re.sub(r"gemmd-haproxy-\w{10}\b", "gemmd-haproxy", json.dumps(list(entries))))
    for entry in entries:
        for key in ("namespace", "labels"):
            entry["metadata"].pop(key, None)
        if entry["kind"] == "Deployment":
            entry["spec"].setdefault("replicas", 1)
            entry["spec"]["template"]["metadata"].pop("annotations", None)
    return {(entry["kind"], entry["metadata"]["name"]): entry for entry in entries}


@pytest.mark.parametrize("overlay", CHART)
def test_the_chart_makes_what_kustomize_makes(overlay):
    made = without_habits(render_chart(CHART[overlay]).values())
    wanted = without_habits(documents(overlay))
    assert set(made) == set(wanted)
    for key, entry in wanted.items():
        assert made[key] == entry, key


def test_the_chart_without_a_fault():
    helm = pytest.importorskip("helm_python")
    report = helm.lint(KUBERNETES / "chart", strict=True)
    assert report["errors"] == [] and [entry for entry in report["messages"] if entry["severity"] > 1] == []
    with pytest.raises(helm.HelmError, match="backend is 'gpu'; it can be cpu or cuda"):
        render_chart({"backend": "gpu"})


def test_the_chart_mounts_tokens(schemas, request, tmp_path):
    made = render_chart({"backend": "cpu", "tokens": {"secret": "clients", "metricsTenant": "prometheus"},
                         "options": ["--max-body=256M"], "image": {"pullSecrets": [{"name": "registry"}]}})
    deployment = made["Deployment", "gemmd"]
    assert faults(schemas("deployment-apps-v1.json"), deployment) == []
    pod = deployment["spec"]["template"]["spec"]
    [container], [volume] = pod["containers"], pod["volumes"]
    [mount] = container["volumeMounts"]
    assert volume == {"name": mount["name"], "secret": {"secretName": "clients", "defaultMode": 0o440}}
    # The daemon reads the file of the Secret, which is elsewhere here.
    tokens = tmp_path / "tokens"
    tokens.write_text("prometheus:0123456789abcdef scopes=metrics\n")
    tokens.chmod(0o440)
    place = f"--token-file={mount['mountPath']}/tokens"
    assert place in container["args"]
    words = [f"--token-file={tokens}" if word == place else word for word in container["args"]]
    options = json.loads(run(request.config.getoption("--gemmd"), *words, "--check-config"))
    assert options["max-body"] == 2**28 and options["allow-insecure-network"] is False


def test_the_chart_has_the_route_of_the_examples():
    example = yaml.safe_load((KUBERNETES / "examples" / "httproute.yaml").read_text())
    assert render_chart({"route": {"enabled": True}})["HTTPRoute", "gemmd"]["spec"] == example["spec"]
    through = render_chart({"route": {"enabled": True}, "haproxy": {"enabled": True}})
    [rule] = through["HTTPRoute", "gemmd"]["spec"]["rules"]
    assert [backend["name"] for backend in rule["backendRefs"]] == ["gemmd-haproxy"]


def test_releases_of_the_chart_share_no_name():
    made = render_chart({**CHART["fleet"], "dra": True, "route": {"enabled": True}}, release="other")
    made["ConfigMap", "other-haproxy"]["data"] = made["PrometheusRule", "other"]["spec"] = None
    names = {name for entry in made.values() for name in re.findall(r"[\w.:/-]*gemmd[\w.:/-]*", yaml.safe_dump(entry))}
    # The namespace, the container, the image, the label of clients, a metric and a host name.
    assert names == {"gemmd", "gemmd:cuda", "gemmd-client", "gemmd-client:", "gemmd_requests_waiting", "gemmd.internal"}
    assert {name.partition("-")[0] for _, name in made} == {"other"}


def admits(policy, labels):
    """Whether a pod of the namespace with these labels may connect."""
    def matches(selector):
        return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
            entry["operator"] == "In" and labels.get(entry["key"]) in entry["values"]
            for entry in selector.get("matchExpressions", []))
    return any(matches(peer["podSelector"]) for rule in policy["spec"]["ingress"] for peer in rule["from"]
               if "podSelector" in peer)


def test_pods_with_the_label_of_clients_are_let_in():
    """And pods without the label are not."""
    for overlay in OVERLAYS:
        for (kind, name), policy in by_name(overlay).items():
            if kind == "NetworkPolicy":
                assert admits(policy, {"gemmd-client": "true"}), (overlay, name)
                assert not admits(policy, {"app.kubernetes.io/name": name}), (overlay, name)


def test_the_fleets_networks_let_haproxy_through():
    fleet = by_name("fleet")
    proxy = fleet["Deployment", "gemmd-haproxy"]["spec"]["template"]["metadata"]["labels"]
    daemon = fleet["Deployment", "gemmd"]["spec"]["template"]["metadata"]["labels"]
    assert admits(fleet["NetworkPolicy", "gemmd"], proxy)
    reached = [peer["podSelector"]["matchLabels"]
               for rule in fleet["NetworkPolicy", "gemmd-haproxy"]["spec"]["egress"]
               for peer in rule["to"] if "podSelector" in peer]
    assert [labels for labels in reached if labels.items() <= daemon.items()] == reached != []
    assert fleet["Service", "gemmd-pods"]["spec"]["selector"].items() <= daemon.items()
    # Prometheus asks each daemon once: the name for HAProxy does not have the label of the ServiceMonitor.
    wanted = fleet["ServiceMonitor", "gemmd"]["spec"]["selector"]["matchLabels"]
    asked = [name for (kind, name), entry in fleet.items()
             if kind == "Service" and wanted.items() <= entry["metadata"]["labels"].items()]
    assert asked == ["gemmd"]
