"""The files that images are made from, and the composition of all on one machine."""

import json
import re
import subprocess
import tempfile

import jsonschema
import pytest
import yaml

from conftest import ROOT, TOOLS
from program import outcome, shared, tiny, unknown

COMPOSE = ROOT / "docker/compose.yaml"
DOCKERFILES = ["docker/Dockerfile", "docker/Dockerfile.cuda"]


def services():
    return yaml.safe_load(COMPOSE.read_text())["services"]


def clapboards():
    return {name: s for name, s in services().items() if s["image"] == "clapboard" and "command" in s}


@pytest.mark.parametrize("file", DOCKERFILES)
def test_dockerfiles_are_clean(file):
    done = subprocess.run([TOOLS / "venv/bin/hadolint", "--failure-threshold", "style", ROOT / file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", DOCKERFILES)
def test_what_is_copied_from_the_repository_is_there_and_not_ignored(file):
    allowed = {line[1:] for line in (ROOT / f"{file}.dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = [s for line in re.findall(r"^COPY (?!--from)(.+)$", (ROOT / file).read_text(), re.M) for s in line.split()[:-1]]
    assert sources
    for source in sources:
        # All of what is not ignored; and the program, where the folder that it lies in is handed in.
        if source != ".":
            assert source in allowed
        assert source == "clapboard" or (ROOT / source).exists(), source
    for path in allowed - {"clapboard"}:
        assert (ROOT / path).exists(), path


def test_the_program_can_be_built_from_what_is_not_ignored():
    """Every member of the workspace, or cargo would refuse it."""
    allowed = {line[1:] for line in (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    workspace = (ROOT / "Cargo.toml").read_text()
    members = re.search(r"^members = \[(.+)\]", workspace, re.M)[1]
    assert {m.split("/")[0] for m in re.findall(r'"([^"]+)"', members)} | {"Cargo.toml", "Cargo.lock", ".cargo", "migrations", "src"} <= allowed
    rust = re.search(r'rust-version = "([\d.]+)"', workspace)[1]
    assert f"rust:{rust}-bookworm" in (ROOT / "docker/Dockerfile").read_text()


def test_the_composition_follows_its_specification():
    import check_jsonschema
    [schema] = __import__("pathlib").Path(check_jsonschema.__file__).parent.rglob("compose-spec.json")
    composition = yaml.safe_load(COMPOSE.read_text())
    validator = jsonschema.validators.validator_for(json.loads(schema.read_text()))(json.loads(schema.read_text()))
    assert list(validator.iter_errors(composition)) == []
    composition["services"]["api"]["comand"] = []
    assert list(validator.iter_errors(composition)), "a misspelt key would be found"


def test_names_in_the_composition_lead_somewhere():
    composition = yaml.safe_load(COMPOSE.read_text())
    for name, service in composition["services"].items():
        for other, how in service.get("depends_on", {}).items():
            target = composition["services"][other]
            if how["condition"] == "service_healthy":
                assert "test" in target["healthcheck"], f"{name} waits for {other}"
            else:
                assert how["condition"] == "service_completed_successfully" and target["restart"] == "no"
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in composition["volumes"]
        if "build" in service:
            stages = re.findall(r" AS (\S+)", (ROOT / service["build"]["dockerfile"]).read_text())
            assert service["build"]["target"] in stages
        assert not service.get("privileged") and "network_mode" not in service
        # Only the API is reached from outside, and that from this machine.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])) and ("ports" in service) == (name == "api")
    for service in clapboards().values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]


def test_every_variable_of_the_composition_is_known():
    assert len(clapboards()) == 5
    for name, service in clapboards().items():
        command = service["command"][0]
        assert unknown(command, set(service["environment"])) - shared() == set(), name


def test_servers_are_where_the_processes_look_for_them():
    everything = services()
    variables = everything["scheduler"]["environment"]
    postgres = everything["postgres"]["environment"]
    assert variables["DATABASE_URL"] == f"postgres://{postgres['POSTGRES_USER']}:{postgres['POSTGRES_PASSWORD']}@postgres:5432/{postgres['POSTGRES_DB']}"
    words = everything["s3"]["command"]
    value = lambda flag: words[words.index(flag) + 1]
    assert variables["CLAPBOARD_S3_ENDPOINT"] == f"http://s3:{value('--port')}"
    assert (variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"]) == (value("--access-key"), value("--secret-key"))
    # A folder of the image is the bucket.
    assert f"{words[-1]}/{variables['CLAPBOARD_S3_BUCKET']}" in (ROOT / "docker/Dockerfile").read_text()


def test_every_process_of_the_composition_takes_its_settings_and_goes_as_far_as_its_database():
    with tempfile.TemporaryDirectory() as folder:
        model = tiny(folder)
        for name, service in clapboards().items():
            words = [w.replace("/model/tiny", model).replace("/var/lib/clapboard", f"{folder}/{name}").replace("0.0.0.0:8000", "127.0.0.1:0")
                     for w in service["command"]]
            variables = service["environment"] | {"DATABASE_URL": "postgres://clapboard:clapboard@127.0.0.1:1/none"}
            variables |= {"CLAPBOARD_METRICS_LISTEN": "127.0.0.1:0"} if "CLAPBOARD_METRICS_LISTEN" in variables else {}
            code, said = outcome(words, variables, folder)
            assert code == 1 and "127.0.0.1:1/none cannot be reached" in said, (name, code, said)


def test_the_checkpoint_of_the_composition_is_made_once_and_anew_where_it_is_broken():
    [script] = services()["checkpoint"]["entrypoint"][2:]
    from conftest import PROGRAM
    with tempfile.TemporaryDirectory() as folder:
        script = script.replace("/model", folder).replace("clapboard checkpoint", f"{PROGRAM} checkpoint")
        run = lambda: subprocess.run(["sh", "-c", script], capture_output=True, text=True)
        made = run()
        assert made.returncode == 0 and "wrote a tiny checkpoint" in made.stdout + made.stderr
        again = run()
        assert again.returncode == 0 and "wrote a tiny checkpoint" not in again.stdout + again.stderr
        file = next(p for p in __import__("pathlib").Path(folder).rglob("*.safetensors"))
        file.unlink()
        assert "wrote a tiny checkpoint" in (lambda done: done.stdout + done.stderr)(run())
