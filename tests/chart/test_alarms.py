"""Alarms and dashboard: what they ask for exists, and alarms go off when they should."""

import json
import re
import subprocess

import pytest
import yaml

from conftest import CHART, NAMESPACE, ROOT, TOOLS, render

# What the processes tell, each with its labels; a test of theirs holds the page against the program.
METRICS = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in
           re.findall(r"^\| `(clapboard_\w+)` \| \w+ \| ([^|]*)\|", (ROOT / "docs/telemetry.md").read_text(), re.M)}
# What Prometheus adds: where it found a series, and the bucket of a histogram.
ADDED = {"namespace", "pod", "le"}
PROMTOOL = TOOLS / "promtool"
needs_promtool = pytest.mark.skipif(not PROMTOOL.exists(), reason="promtool is neither installed nor a Debian package here")


def rules():
    [rule] = render("full").of("PrometheusRule")
    return rule["spec"]


def alarms():
    return [alarm for group in rules()["groups"] for alarm in group["rules"]]


def dashboard_expressions():
    dashboard = json.loads((CHART / "dashboards/clapboard.json").read_text())
    return [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]


def promtool(tmp_path, command, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    last = tmp_path / f"{list(files)[-1]}.yaml"
    return subprocess.run([PROMTOOL, command, "rules", last], capture_output=True, text=True, cwd=tmp_path)


def test_only_metrics_that_exist_are_asked_for_and_only_by_labels_that_they_have():
    assert len(METRICS) > 20
    for expression in [alarm["expr"] for alarm in alarms()] + dashboard_expressions():
        asked = re.findall(r"\b(clapboard_\w+)\{([^}]*)\}", expression)
        assert len(asked) == len(re.findall(r"\bclapboard_\w+", expression)), f"every series is of one namespace: {expression}"
        for name, matchers in asked:
            labels = METRICS[name if name in METRICS else re.sub("_bucket$", "", name)] | ADDED
            assert {m for m in re.findall(r"(\w+)=", matchers)} <= labels, expression
            assert "namespace" in matchers
            for grouped in re.findall(r"by \(([^)]*)\)", expression):
                assert set(re.split(r",\s*", grouped)) <= labels, expression
    variables = json.loads((CHART / "dashboards/clapboard.json").read_text())["templating"]["list"]
    assert {"datasource", "namespace", "partition"} == {v["name"] for v in variables}


def test_every_alarm_has_a_page():
    told = alarms()
    assert 5 <= len(told) <= 8
    runbook = ROOT / "docs/runbook.md"
    headings = re.findall(r"^#+ (.+)$", runbook.read_text(), re.M) if runbook.exists() else None
    for alarm in told:
        url = alarm["annotations"]["runbook_url"]
        assert url == f"docs/runbook.md#{alarm['alert'].lower()}"
        assert alarm["labels"]["severity"] in ("warning", "critical") and alarm["annotations"]["summary"]
        if headings is not None:
            assert alarm["alert"].lower() in {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}, alarm["alert"]


@needs_promtool
def test_expressions_can_be_read(tmp_path):
    done = promtool(tmp_path, "check", rules=rules())
    assert done.returncode == 0, done.stdout + done.stderr
    expressions = [e.replace("$__rate_interval", "5m").replace("$namespace", ".*").replace("$partition", ".*") for e in dashboard_expressions()]
    recorded = {"groups": [{"name": "d", "rules": [{"record": f"panel:{n}", "expr": e} for n, e in enumerate(expressions)]}]}
    done = promtool(tmp_path, "check", dashboard=recorded)
    assert done.returncode == 0, done.stdout + done.stderr


def series(name, values, **labels):
    inside = ", ".join(f'{k}="{v}"' for k, v in ({"namespace": NAMESPACE} | labels).items())
    return {"series": f"clapboard_{name}{{{inside}}}", "values": values}


WAITING = series("job_queue_depth", "3x60", partition="fl2va", state="queued")
NONE_WAITING = series("job_queue_depth", "0x60", partition="fl2va", state="queued")
IDLE = series("worker_state", "1x60", partition="fl2va", pod="w", state="idle")
# What is told, the alarm, after how many minutes, and whether it goes off. Another namespace's series are there too.
STORIES = [
    ([series("job_oldest_queued_age_seconds", "0+60x60", partition="fl2va")], "ClapboardJobsWaitTooLong", 30, False),
    ([series("job_oldest_queued_age_seconds", "0+60x60", partition="fl2va")], "ClapboardJobsWaitTooLong", 40, True),
    ([WAITING], "ClapboardNoReadyWorkers", 19, False),
    ([WAITING], "ClapboardNoReadyWorkers", 21, True),
    ([NONE_WAITING], "ClapboardNoReadyWorkers", 30, False),
    ([WAITING, IDLE], "ClapboardNoReadyWorkers", 30, False),
    ([WAITING, series("worker_state", "1x60", partition="ref2va", pod="w", state="idle")], "ClapboardNoReadyWorkers", 30, True),
    ([WAITING, series("worker_state", "1x60", partition="fl2va", pod="w", state="unwell")], "ClapboardNoReadyWorkers", 30, True),
    ([series("worker_state", "1x60", partition="fl2va", pod="w", state="unwell")], "ClapboardWorkerUnwell", 11, True),
    ([series("worker_state", "0x60", partition="fl2va", pod="w", state="unwell")], "ClapboardWorkerUnwell", 11, False),
    ([series("lease_expired_total", "0 1 1 1x60")], "ClapboardLeasesExpire", 20, False),
    ([series("lease_expired_total", "0 1 2 3 4x60")], "ClapboardLeasesExpire", 20, True),
    ([series("stale_completions_rejected_total", "0x60")], "ClapboardStaleCompletions", 20, False),
    ([series("stale_completions_rejected_total", "0x10 1x50")], "ClapboardStaleCompletions", 20, True),
    ([series("jobs_finished_total", "0+1x60", outcome="completed"), series("jobs_finished_total", "0+1x60", outcome="failed")], "ClapboardJobsFail", 50, True),
    ([series("jobs_finished_total", "0+9x60", outcome="completed"), series("jobs_finished_total", "0+1x60", outcome="failed")], "ClapboardJobsFail", 50, False),
    ([series("jobs_finished_total", "0 1 1x60", outcome="failed")], "ClapboardJobsFail", 50, False),
    ([series("webhook_oldest_age_seconds", "0+60x60")], "ClapboardWebhooksLate", 15, False),
    ([series("webhook_oldest_age_seconds", "0+60x60")], "ClapboardWebhooksLate", 30, True),
    ([NONE_WAITING], "ClapboardMetricsAbsent", 30, False),
    ([], "ClapboardMetricsAbsent", 11, True),
    ([series("job_queue_depth", "3x60", namespace="another", partition="fl2va", state="queued")], "ClapboardMetricsAbsent", 11, True),
]


@needs_promtool
def test_alarms_go_off_when_they_should_and_only_then(tmp_path):
    assert {alarm for _, alarm, _, _ in STORIES} == {alarm["alert"] for alarm in alarms()}
    by_name = {alarm["alert"]: alarm for alarm in alarms()}
    for told, name, minutes, fires in STORIES:
        group = {"groups": [{"name": "clapboard", "rules": [
            # Who is named in an alarm, and in which words, is not what is looked at here.
            {"alert": name, "expr": by_name[name]["expr"].replace("max by (pod)", "max").replace("max by (partition)", "max")
             if name not in ("ClapboardNoReadyWorkers", "ClapboardMetricsAbsent") else by_name[name]["expr"], "for": by_name[name].get("for", "0s")}]}]}
        labels = {"ClapboardNoReadyWorkers": {"partition": "fl2va"}, "ClapboardMetricsAbsent": {"namespace": NAMESPACE}}.get(name, {})
        story = {"rule_files": ["group.yaml"], "evaluation_interval": "1m", "tests": [{"interval": "1m", "input_series": told, "alert_rule_test": [
            {"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": [{"exp_labels": labels}] if fires else []}]}]}
        done = promtool(tmp_path, "test", group=group, story=story)
        assert done.returncode == 0, (told, name, minutes, done.stdout + done.stderr)
