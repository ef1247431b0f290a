"""What the chart promises about what it renders."""

import ipaddress
import json
import re

import pytest
import yaml

from conftest import CHART, NAMESPACE, ROOT, VALUES, environment, render

SECRETS = "/etc/clapboard/secrets/"


def workers(rendering):
    return [o for o in rendering.of("Deployment") if o["metadata"]["labels"]["app.kubernetes.io/component"] == "worker"]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m|h)", text).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def test_a_worker_has_the_time_that_it_takes_to_drain(each):
    for o in workers(each):
        pod = o["spec"]["template"]["spec"]
        variables = environment(each, pod["containers"][0])
        needed = seconds(variables["CLAPBOARD_DRAIN_TIMEOUT"]) + seconds(variables["CLAPBOARD_UPLOAD_DEADLINE"])
        if variables["CLAPBOARD_DRAIN"] == "finish":
            needed += 3600
        # The program itself takes five seconds more, and ten is what docs/operations.md asks for.
        assert pod["terminationGracePeriodSeconds"] >= needed + 10, o["metadata"]["name"]


def test_the_grace_period_is_the_sum_of_its_parts():
    parts = {"drainTimeoutSeconds": 7, "uploadDeadlineSeconds": 100, "slackSeconds": 11, "jobTimeoutSeconds": 5000}
    for drain, expected in [("hand-back", 118), ("finish", 5118)]:
        rendering = render(workers={"fl2va": {"drain": drain, **parts}})
        pod = rendering.one("Deployment", "films-clapboard-worker-fl2va")["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == expected
        # A worker whose engine hangs is not given the time of uploads.
        assert pod["containers"][0]["livenessProbe"]["terminationGracePeriodSeconds"] == 18


def test_an_api_that_ends_is_given_its_requests_time(each):
    pod = each.of("Deployment")[0]["spec"]["template"]["spec"]
    for o in each.of("Deployment"):
        if o["metadata"]["labels"]["app.kubernetes.io/component"] != "api":
            continue
        pod = o["spec"]["template"]["spec"]
        [container] = pod["containers"]
        closing = seconds(environment(each, container)["CLAPBOARD_CLOSING_GRACE"])
        assert pod["terminationGracePeriodSeconds"] > container["lifecycle"]["preStop"]["sleep"]["seconds"] + closing
        assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "http"}
        assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "http"}


def test_weights_may_take_half_an_hour(each):
    for o in workers(each):
        probe = o["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 1800
        assert o["spec"]["progressDeadlineSeconds"] > 1800


def test_probes_and_services_name_ports_that_are_there(each):
    for _, _, container in each.containers():
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["port"] in ports
    for service in each.of("Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} == {"http", "metrics"}


def test_what_keda_scales_has_no_number_of_its_own():
    rendering = render("full")
    scaled = {o["spec"]["scaleTargetRef"]["name"]: o["spec"] for o in rendering.of("ScaledObject")}
    assert len(scaled) == 2
    for o in workers(rendering):
        assert o["metadata"]["name"] in scaled and "replicas" not in o["spec"]
    for spec in scaled.values():
        [trigger] = spec["triggers"]
        [authentication] = rendering.of("TriggerAuthentication", trigger["authenticationRef"]["name"])
        assert [source["parameter"] for source in authentication["spec"]["secretTargetRef"]] == ["connection"]
        assert "'queued'" in trigger["metadata"]["query"] and "'running'" in trigger["metadata"]["query"]
        assert spec["cooldownPeriod"] >= 1800
    for o in workers(render()):
        assert o["spec"]["replicas"] == 1


def test_what_the_autoscaler_scales_has_no_number_of_its_own():
    rendering = render("full")
    [scaler] = rendering.of("HorizontalPodAutoscaler")
    api = rendering.one("Deployment", scaler["spec"]["scaleTargetRef"]["name"])
    assert "replicas" not in api["spec"]


def matches(selector, labels):
    return selector.items() <= labels.items()


def test_every_selector_finds_its_own_pods_and_no_others(each):
    pods = [(owner["metadata"]["name"], labels) for owner, labels, _ in each.pods()]

    def found(selector):
        return {name for name, labels in pods if matches(selector, labels)}

    for o in each.of("Deployment"):
        selector = o["spec"]["selector"]["matchLabels"]
        assert found(selector) == {o["metadata"]["name"]}
        # They cannot be changed later: no version may be in them.
        assert not any("version" in key or "chart" in key for key in selector)
    names = {part: {name for name, labels in pods if labels["app.kubernetes.io/component"] == part}
             for part in ("api", "scheduler", "worker", "migrate")}
    for o in each:
        part = o["metadata"].get("labels", {}).get("app.kubernetes.io/component")
        worker = o["metadata"].get("labels", {}).get("clapboard/worker")
        expected = {o["metadata"]["name"]} if worker else names.get(part)
        match o["kind"]:
            case "Service":
                assert found(o["spec"]["selector"]) == expected
            case "PodDisruptionBudget" | "PodMonitor":
                assert found(o["spec"]["selector"]["matchLabels"]) == expected
            case "NetworkPolicy":
                assert found(o["spec"]["podSelector"]["matchLabels"]) == expected
            case "ServiceMonitor":
                assert [s["metadata"]["name"] for s in each.of("Service") if matches(o["spec"]["selector"]["matchLabels"], s["metadata"]["labels"])] == [
                    s["metadata"]["name"] for s in each.of("Service")]


def test_budgets_never_hold_up_a_node_for_ever():
    budgets = {o["metadata"]["name"]: o["spec"] for o in render().of("PodDisruptionBudget")}
    assert budgets["films-clapboard-api"]["minAvailable"] == 1
    for name in ("fl2va", "ref2va"):
        assert budgets[f"films-clapboard-worker-{name}"]["maxUnavailable"] == 1
    alone = render(api={"replicas": 1}, scheduler={"replicas": 1}).of("PodDisruptionBudget")
    assert {o["metadata"]["labels"]["app.kubernetes.io/component"] for o in alone} == {"worker"}


def test_a_rollout_never_wants_one_more_gpu(each):
    for o in workers(each):
        strategy = o["spec"]["strategy"]
        assert strategy["type"] == "Recreate" or strategy["rollingUpdate"]["maxSurge"] == 0


def test_gpus_are_asked_for_as_they_are_limited():
    rendering = render("full")
    for o, gpus in zip(workers(rendering), (1, 2), strict=True):
        resources = o["spec"]["template"]["spec"]["containers"][0]["resources"]
        assert resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"] == gpus
    for _, _, container in render("cpu").containers():
        assert "nvidia.com/gpu" not in container["resources"]["limits"]
        assert not any(e["name"].startswith("NVIDIA") for e in container.get("env", []))


def test_the_profile_says_what_computes():
    for base, image, device, dtype in [("minimal", "clapboard-cuda:", "cuda:0", "bf16"), ("cpu", "clapboard:", "cpu", "f32")]:
        rendering = render(base)
        for o in workers(rendering):
            container = o["spec"]["template"]["spec"]["containers"][0]
            variables = environment(rendering, container)
            assert container["image"].startswith(image)
            assert (variables["CLAPBOARD_DEVICE"], variables["CLAPBOARD_DTYPE"]) == (device, dtype)


def test_an_entry_says_more_than_the_defaults_even_when_it_says_no_or_none():
    rendering = render(workers={
        "fl2va": {"replicas": 0, "podDisruptionBudget": {"enabled": False}, "tolerations": []},
        "ref2va": {"enabled": False},
        "second": {"partition": "fl2va"},
    })
    assert {o["metadata"]["name"].removeprefix("films-clapboard-worker-") for o in workers(rendering)} == {"fl2va", "second"}
    first = rendering.one("Deployment", "films-clapboard-worker-fl2va")["spec"]
    assert first["replicas"] == 0 and "tolerations" not in first["template"]["spec"]
    assert rendering.of("PodDisruptionBudget", "films-clapboard-worker-fl2va") == []
    api = rendering.one("Deployment", "films-clapboard-api")["spec"]["template"]["spec"]["containers"][0]
    assert environment(rendering, api)["CLAPBOARD_SERVE_PARTITIONS"] == "fl2va"


def test_weights_are_never_written_to(each):
    for _, pod, container in each.containers():
        for mount in container.get("volumeMounts", []):
            if mount["name"] == "model":
                assert mount["readOnly"] is True
                [volume] = [v for v in pod["volumes"] if v["name"] == "model"]
                assert volume.get("persistentVolumeClaim", {"readOnly": True})["readOnly"] is True
    for o in workers(each):
        mounts = {m["name"] for m in o["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]}
        assert {"model", "scratch", "shm", "tmp"} <= mounts


def test_no_secret_is_in_any_object(each):
    assert each.of("Secret") == []
    for _, _, container in each.containers():
        for variable in container.get("env", []):
            if re.search("SECRET|PASSWORD|TOKEN|DATABASE_URL|REDIS_URL", variable["name"]):
                assert variable["name"].endswith("_FILE") and variable["value"].startswith(SECRETS), variable
    # Whatever a cluster would hold under these names is only named: once as a volume of each pod.
    for _, labels, pod in each.pods():
        projected = [v for v in pod.get("volumes", []) if v["name"] == "secrets"]
        assert len(projected) == 1


def test_files_of_secrets_are_where_the_environment_says(each):
    for _, pod, container in each.containers():
        files = {SECRETS + item["path"] for v in pod["volumes"] if v["name"] == "secrets"
                 for source in v["projected"]["sources"] for item in source["secret"]["items"]}
        named = {v for k, v in environment(each, container).items() if k.endswith("_FILE")}
        assert named <= files
        if named:
            assert any(m["mountPath"] + "/" == SECRETS for m in container["volumeMounts"])


def test_every_container_is_held_to_what_it_needs(each):
    for owner, pod, container in each.containers():
        context = container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert pod["automountServiceAccountToken"] is False
        assert {"limits", "requests"} <= container["resources"].keys()


def test_a_hook_needs_nothing_that_is_not_there_yet():
    rendering = render("cpu", serviceAccount={"create": True})
    [job] = rendering.of("Job")
    annotations = job["metadata"]["annotations"]
    assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade" and annotations["argocd.argoproj.io/hook"] == "PreSync"
    pod = job["spec"]["template"]["spec"]
    made = {(o["kind"], o["metadata"]["name"]) for o in rendering}
    text = json.dumps(pod)
    assert "serviceAccountName" not in pod and "configMapRef" not in text
    for source in [s for v in pod["volumes"] for s in v["projected"]["sources"]]:
        assert ("Secret", source["secret"]["name"]) not in made
    assert len(pod["volumes"][0]["projected"]["sources"]) == 1, "the database's secret and no other"
    assert "initContainers" not in rendering.one("Deployment", "films-clapboard-api")["spec"]["template"]["spec"]


def test_apis_migrate_before_they_start():
    [container] = render().one("Deployment", "films-clapboard-api")["spec"]["template"]["spec"]["initContainers"]
    assert container["args"] == ["migrate"]
    for o in render(migrations={"mode": "none"}).of("Deployment"):
        assert "initContainers" not in o["spec"]["template"]["spec"]


def test_pods_start_anew_when_their_settings_change():
    def checksums(**values):
        return {o["spec"]["template"]["metadata"]["annotations"]["checksum/config"] for o in render(**values).of("Deployment")}
    assert len(checksums()) == 1
    assert checksums() != checksums(jobs={"lease": "90s"})


def blocks(rule):
    """The blocks of addresses that a rule lets out to, each with its exceptions."""
    for peer in rule.get("to", []):
        if "ipBlock" in peer:
            yield ipaddress.ip_network(peer["ipBlock"]["cidr"]), [ipaddress.ip_network(b) for b in peer["ipBlock"].get("except", [])]


def reaches(policy, address):
    address = ipaddress.ip_address(address)
    return any(address in block and not any(address in e for e in exceptions)
               for rule in policy["spec"]["egress"] for block, exceptions in blocks(rule))


@pytest.mark.parametrize("values", ["full", "cpu"])
def test_nobody_reaches_workers_and_nobody_asks_for_metadata(values):
    rendering = render(values)
    policies = {o["metadata"]["labels"]["app.kubernetes.io/component"]: o for o in rendering.of("NetworkPolicy")}
    assert policies.keys() >= {"api", "scheduler", "worker"}
    for part, policy in policies.items():
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        ports = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert ports <= ({"http", "metrics"} if part == "api" else {"metrics"})
        for address in ("169.254.169.254", "169.254.170.2", "fe80::1", "fd00:ec2::254"):
            assert not reaches(policy, address), (part, address)


def test_only_apis_and_schedulers_reach_the_internet():
    servers = {name: {"to": [{"podSelector": {"matchLabels": {"app": name}}}]} for name in ("database", "redis", "s3")}
    rendering = render(networkPolicy={"enabled": True, **servers})
    for policy in rendering.of("NetworkPolicy"):
        part = policy["metadata"]["labels"]["app.kubernetes.io/component"]
        for address in ("93.184.215.14", "2606:2800:21f::1"):
            assert reaches(policy, address) == (part in ("api", "scheduler"))
        for address in ("10.0.0.1", "172.20.0.1", "192.168.1.1", "100.100.100.200", "127.0.0.1", "168.63.129.16", "fc00::1", "64:ff9b::a00:1"):
            assert not reaches(policy, address), (part, address)


def test_the_internet_is_what_the_program_takes_for_it():
    source = (ROOT / "crates/outbound/src/address.rs").read_text()
    v4 = {f"{a}.{b}.{c}.{d}/{length}" for a, b, c, d, length in
          re.findall(r"\(Ipv4Addr::new\((\d+), (\d+), (\d+), (\d+)\), (\d+)\)", source)}
    assert len(v4) > 10 and v4 == set(yaml.safe_load((CHART / "values.yaml").read_text())["networkPolicy"]["internet"]["except"])
    policy = render(networkPolicy={"enabled": True}).one("NetworkPolicy", "films-clapboard-scheduler")
    v6 = {e for rule in policy["spec"]["egress"] for block, exceptions in blocks(rule) if str(block) == "2000::/3" for e in exceptions}
    closed = set()
    for segments, length in re.findall(r"\(Ipv6Addr::new\(([^)]*)\), (\d+)\)", source):
        bits = 0
        for segment in segments.split(","):
            bits = bits << 16 | int(segment, 0)
        closed.add(ipaddress.IPv6Network((bits, int(length))))
    # The program looks into 6to4's addresses, which a policy cannot.
    assert len(closed) >= 4 and v6 == closed | {ipaddress.ip_network("2002::/16")}


def test_names_stay_within_bounds():
    rendering = render(fullnameOverride="x" * 80, workers={"a" * 15: {"partition": "fl2va"}})
    assert max(len(o["metadata"]["name"]) for o in rendering) <= 63
    assert all(o["metadata"]["namespace"] == NAMESPACE for o in rendering)
    for o in rendering:
        assert all(len(str(v)) <= 63 for v in o["metadata"]["labels"].values())


def leaves(values, schema, definitions, path=""):
    """Each key of the values that the schema does not know, and each of the schema that the values lack."""
    schema = resolve(schema, definitions)
    if "properties" not in schema:
        return
    assert schema["additionalProperties"] is False, path
    for key in values.keys() ^ schema["properties"].keys():
        # Claims of resources have no default.
        if f"{path}{key}" != f"{path.removesuffix('resources.')}resources.claims":
            yield f"{path}{key}"
    for key in values.keys() & schema["properties"].keys():
        if isinstance(values[key], dict):
            yield from leaves(values[key], schema["properties"][key], definitions, f"{path}{key}.")


def resolve(schema, definitions):
    return definitions[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def test_every_value_is_in_the_schema_and_the_other_way_round():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert list(leaves(values, schema, schema["definitions"])) == []


def test_every_part_of_the_values_files_is_used():
    """A file that sets what is the default already shows nothing."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in VALUES.values():
        for key, value in yaml.safe_load(path.read_text()).items():
            assert value != defaults[key], f"{path.name}: {key}"
