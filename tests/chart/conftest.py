"""What the tests share: the chart's renderings, and the program."""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/clapboard"
TOOLS = Path(os.environ["CHART_TOOLS"])
PROGRAM = os.environ["CLAPBOARD_PROGRAM"]
UPDATE = "CHART_UPDATE" in os.environ

HELMS = ["helm-3", "helm-4"]
# Each is a whole set of values that somebody may have.
VALUES = {path.stem: path for path in sorted((CHART / "ci").glob("*.yaml"))}
RELEASE, NAMESPACE = "films", "studio"

# Kinds whose schemas come from elsewhere than Kubernetes.
CUSTOM = {
    "HTTPRoute",
    "PodMonitor",
    "PrometheusRule",
    "ScaledObject",
    "ServiceMonitor",
    "TriggerAuthentication",
}


def helm(version, *arguments):
    """Runs helm, as it is without a cluster."""
    environment = {"PATH": os.environ["PATH"], "HOME": tempfile.gettempdir()}
    return subprocess.run([TOOLS / "helm" / version, *arguments], capture_output=True, text=True, env=environment)


class Refused(Exception):
    """Helm did not render the chart; the reason is what it said."""


@functools.cache
def template(version, files, *more):
    """The text that helm renders of some files of values."""
    values = [word for file in files for word in ("--values", file)]
    done = helm(version, "template", RELEASE, CHART, "--namespace", NAMESPACE, *values, *more)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


class Rendering(list):
    """The objects of a rendering."""

    def of(self, kind, name=None):
        return [o for o in self if o["kind"] == kind and name in (None, o["metadata"]["name"])]

    def one(self, kind, name):
        [found] = self.of(kind, name)
        return found

    def pods(self):
        """Each template of pods, and each pod, with the object that it belongs to."""
        for o in self:
            if o["kind"] in ("Deployment", "Job"):
                yield o, o["spec"]["template"]["metadata"]["labels"], o["spec"]["template"]["spec"]
            elif o["kind"] == "Pod":
                yield o, o["metadata"]["labels"], o["spec"]

    def containers(self):
        for owner, _, pod in self.pods():
            for container in pod.get("initContainers", []) + pod["containers"]:
                yield owner, pod, container


def objects(text):
    return Rendering(o for o in yaml.safe_load_all(text) if o)


def render(base="minimal", version="helm-4", **values):
    """The objects that a file of values and some more values make."""
    files = [str(VALUES[base])]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as more:
        if values:
            json.dump(values, more)
            more.flush()
            files.append(more.name)
        return objects(template.__wrapped__(version, files) if values else template(version, tuple(files)))


def environment(rendering, container):
    """The variables that a container gets from the chart; those from secrets have the value None."""
    variables = {}
    for source in container.get("envFrom", []):
        variables |= rendering.one("ConfigMap", source["configMapRef"]["name"])["data"]
    return variables | {e["name"]: e.get("value") for e in container.get("env", [])}


@pytest.fixture(params=VALUES)
def each(request):
    """The objects of each file of values."""
    return render(request.param)


def pytest_terminal_summary(terminalreporter):
    count = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    terminalreporter.write_line(f"{count['passed']} passed, {count['failed'] + count['error']} failed{skipped}")
