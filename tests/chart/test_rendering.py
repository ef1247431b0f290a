"""The chart renders with both majors of Helm, to objects that Kubernetes and the operators take."""

import json
import subprocess

import kubernetes_validate
import pytest
import yaml

from conftest import CHART, CUSTOM, HELMS, TOOLS, UPDATE, VALUES, Refused, helm, objects, render, template

# The oldest that Chart.yaml names and the newest.
KUBERNETES = ["1.30", "1.37"]
GOLDEN = CHART.parents[1] / "tests/chart/golden"


def faults(rendering, versions=KUBERNETES):
    """What Kubernetes or an operator would not take."""
    found = []
    for o in rendering:
        if o["kind"] in CUSTOM:
            continue
        for version in versions:
            try:
                kubernetes_validate.validate(o, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                found.append(f"{version}: {o['kind']} {o['metadata']['name']}: {error.message}")
    custom = [o for o in rendering if o["kind"] in CUSTOM]
    if custom:
        found += crd_faults(custom)
    return found


def crd_faults(custom):
    command = [TOOLS / "venv/bin/node", CHART.parents[1] / "tests/chart/crds.mjs", TOOLS / "node"]
    done = subprocess.run(command, input=json.dumps(custom), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("values", VALUES)
def test_lints(version, values):
    done = helm(version, "lint", "--strict", CHART, "--values", VALUES[values])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUES)
def test_both_majors_render_the_same(values):
    key = lambda o: (o["kind"], o["metadata"]["name"])
    three, four = (sorted(render(values, version), key=key) for version in HELMS)
    assert three == four


# An image volume is a field that 1.30 does not know yet, so the values that ask for one are not for it.
def test_every_object_is_valid(each):
    images = any("image" in v for _, _, pod in each.pods() for v in pod.get("volumes", []))
    assert faults(each, KUBERNETES[1:] if images else KUBERNETES) == []


def test_a_fault_is_found():
    rendering = render("full")
    rendering.one("Deployment", "films-api")["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = "eighty"
    rendering.one("ScaledObject", "films-worker-fl2va")["spec"]["minReplicaCount"] = "none"
    found = faults(rendering, ["1.37"])
    assert len(found) == 2 and "films-api" in found[0] and "minReplicaCount" in found[1], found


@pytest.mark.parametrize("values", ["minimal", "full"])
def test_golden(values):
    text = template("helm-4", (str(VALUES[values]),))
    golden = GOLDEN / f"{values}.yaml"
    if values == "full":
        # The dashboard is a file already.
        rest = [part for part in text.split("---\n") if "clapboard.json:" not in part]
        assert len(rest) == len(text.split("---\n")) - 1
        text = "---\n".join(rest)
    if UPDATE:
        golden.write_text(text)
    assert golden.read_text() == text, "scripts/check-chart --update writes what is rendered now"


SWITCHES = {
    "no service account": {"serviceAccount": {"create": False}},
    "keys of S3": {"s3": {"existingSecret": "s3"}},
    "an image volume": {"model": {"existingClaim": "", "image": {"reference": "weights:1"}}},
    "a path of the host": {"model": {"existingClaim": "", "hostPath": "/srv/h3"}},
    "migrations by a hook": {"migrations": {"mode": "hook"}},
    "migrations by hand": {"migrations": {"mode": "none"}},
    "an open API": {"api": {"auth": "open"}},
    "the API reads the model": {"api": {"mountModel": True}},
    "one API": {"api": {"replicas": 1}},
    "scaled APIs": {"api": {"autoscaling": {"enabled": True}}},
    "an ingress": {"ingress": {"enabled": True}},
    "a route": {"httpRoute": {"enabled": True, "parentRefs": [{"name": "gateway"}]}},
    "monitors": {"metrics": {"monitors": {"enabled": True}}},
    "alarms": {"metrics": {"rules": {"enabled": True}}},
    "a dashboard": {"metrics": {"dashboard": {"enabled": True}}},
    "policies of the network": {"networkPolicy": {"enabled": True}},
    "no tests": {"tests": {"enabled": False}},
    "scaled workers": {"workerDefaults": {"autoscaling": {"enabled": True}}},
    "workers that finish": {"workerDefaults": {"drain": "finish"}},
    "workers without a GPU": {"workerDefaults": {"profile": "cpu"}},
    "one worker on a node": {"workerDefaults": {"onePerNode": True}},
    "workers that are recreated": {"workerDefaults": {"updateStrategy": {"type": "Recreate"}}},
    "volumes for scratch": {"workerDefaults": {"scratch": {"storageClassName": "fast"}}},
    "claims of resources": {"workerDefaults": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}},
    "no workers": {"workers": {"fl2va": {"enabled": False}, "ref2va": {"enabled": False}}},
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_renders_valid_objects_and_changes_some(switch):
    rendering = render(**SWITCHES[switch])
    assert rendering != render()
    assert faults(rendering, ["1.37"]) == []


REFUSED = {
    "has to name the secret that holds the database's URL": {"database": {"existingSecret": ""}},
    "has to name the secret that holds the URL of Redis": {"redis": {"existingSecret": ""}},
    "s3.bucket has to name the bucket": {"s3": {"bucket": ""}},
    "workers.fl2va.model or model has to name one of hostPath, existingClaim and image.reference; 0 are named": {"model": {"existingClaim": ""}},
    "existingClaim and image.reference; 2 are named": {"model": {"hostPath": "/srv/h3"}},
    'workers.other.partition must be fl2va or ref2va, not "other"': {"workers": {"other": {}}},
    "httpRoute.parentRefs has to name a gateway": {"httpRoute": {"enabled": True}},
    # By the schema: the grace period is made of its parts, and neither it nor they can be less.
    "slackSeconds": {"workerDefaults": {"slackSeconds": 5}},
    "terminationGracePeriodSeconds": {"workers": {"fl2va": {"terminationGracePeriodSeconds": 5}}},
    "startupSeconds": {"workers": {"fl2va": {"probes": {"startupSeconds": 60}}}},
    "replica": {"api": {"replica": 3}},
    "lease": {"jobs": {"lease": "soon"}},
    "count": {"workers": {"fl2va": {"gpu": {"count": 0}}}},
}


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_is_refused_with_a_sentence(sentence, version):
    with pytest.raises(Refused) as refused:
        render(version=version, **REFUSED[sentence])
    assert sentence in str(refused.value)


@pytest.mark.parametrize("version", HELMS)
def test_an_older_kubernetes_is_refused(version):
    with pytest.raises(Refused, match="incompatible with Kubernetes v1.29"):
        template(version, (str(VALUES["minimal"]),), "--kube-version", "1.29.0")


def test_global_values_of_a_parent_are_allowed():
    assert render(**{"global": {"registry": "example.com"}}) == render()


def test_the_chart_can_be_packed_and_installed_from_the_package(tmp_path):
    done = helm("helm-4", "package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    [package] = tmp_path.glob("clapboard-*.tgz")
    done = helm("helm-4", "install", "films", package, "--namespace", "studio", "--values", VALUES["minimal"], "--dry-run=client", "--output", "json")
    assert done.returncode == 0, done.stderr
    release = json.loads(done.stdout)
    hooks = {hook["kind"] for hook in release["hooks"]}
    installed = objects(release["manifest"])
    assert {o["kind"] for o in installed} | hooks == {o["kind"] for o in render()}
    notes = release["info"]["notes"]
    assert "clapboard keys create" in notes and "svc/films-clapboard-api 8000:80" in notes and "ends within 1860 s" in notes


def test_files_are_tidy():
    files = [CHART / "values.yaml", CHART / "Chart.yaml", *VALUES.values(), CHART.parents[1] / "docker/compose.yaml"]
    rules = yaml.safe_dump({"extends": "default", "rules": {
        "line-length": {"max": 160}, "document-start": "disable", "truthy": "disable",
        "braces": {"max-spaces-inside": 1}, "comments": {"min-spaces-from-content": 1}, "comments-indentation": "disable"}})
    done = subprocess.run([TOOLS / "venv/bin/yamllint", "--strict", "-d", rules, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
