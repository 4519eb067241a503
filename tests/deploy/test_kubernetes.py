"""The Kubernetes manifests: rendered by kubectl, validated against published schemas, and held to what
the daemon itself says of its options."""

import importlib
import json
import re
import zipfile

import jsonschema_rs
import pytest
import yaml

from conftest import DEPLOY, ROOT, need, run

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


def containers():
    for overlay in OVERLAYS:
        for entry in documents(overlay):
            if entry["kind"] == "Deployment":
                yield overlay, entry["spec"]["template"]["spec"]
            elif entry["kind"] == "ClusterServingRuntime":
                yield overlay, entry["spec"]


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
    custom = {"ServiceMonitor", "ScaledObject", "ClusterServingRuntime"}
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
    kinds = {entry["kind"]: entry for entry in documents("fleet")}
    check_model("cloudcoil.models.keda.v1alpha1", kinds["ScaledObject"])
    check_model("cloudcoil.models.prometheus_operator.v1", kinds["ServiceMonitor"])
    with pytest.raises(AssertionError):
        wrong = json.loads(json.dumps(kinds["ScaledObject"]))
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
    for overlay, pod in containers():
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
    for overlay in OVERLAYS:
        kinds = {entry["kind"]: entry for entry in documents(overlay)}
        if "Deployment" in kinds:
            labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
            wanted = [kinds["Deployment"]["spec"]["selector"]["matchLabels"],
                      kinds["Service"]["spec"]["selector"],
                      kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                      kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]]
            assert all(entry and entry.items() <= labels.items() for entry in wanted), overlay
