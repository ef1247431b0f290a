"""What the chart tells the program is what the program understands."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import VALUES, environment, render
from program import help_of, outcome, shared, tiny, unknown


def clapboards(rendering):
    """The containers that run the program, with its subcommand."""
    for _, _, container in rendering.containers():
        if container["name"] != "ready":
            [command] = container["args"]
            yield container, command


def test_every_variable_and_subcommand_is_known(each):
    seen = set()
    for container, command in clapboards(each):
        seen.add(command)
        help_of(command)
        own = {e["name"] for e in container.get("env", [])}
        assert unknown(command, own) == set(), (command, container["name"])
        for source in container.get("envFrom", []):
            [config] = each.of("ConfigMap", source["configMapRef"]["name"])
            assert config["data"].keys() - shared() == set()
    assert {"api", "scheduler", "worker", "migrate"} <= seen


def test_an_unknown_variable_would_be_found():
    assert unknown("worker", {"CLAPBOARD_SCRATCH", "CLAPBOARD_SCRACH", "NVIDIA_DRIVER_CAPABILITIES"}) == {"CLAPBOARD_SCRACH"}


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield path


@pytest.mark.parametrize("values", VALUES)
def test_every_process_takes_its_settings_and_goes_as_far_as_its_database(values, folder):
    rendering = render(values)
    secrets = {"database-url": "postgres://nobody@127.0.0.1:1/none", "redis-url": "redis://127.0.0.1:1", "s3-secret-access-key": "secret"}
    for name, text in secrets.items():
        Path(folder, name).write_text(text)
    for container, command in clapboards(rendering):
        if command == "doctor":
            continue
        variables = {}
        for name, value in environment(rendering, container).items():
            value = "id" if value is None else value
            value = value.replace("/etc/clapboard/secrets", folder).replace("/var/lib/clapboard", f"{folder}/{container['name']}")
            variables[name] = tiny(folder) if value == "/model" else value
        # Whatever there is to compute with, this is about settings; and no port of this machine is to be taken.
        variables |= {"CLAPBOARD_DEVICE": "cpu"} if "CLAPBOARD_DEVICE" in variables else {}
        variables |= {"CLAPBOARD_METRICS_LISTEN": "127.0.0.1:0"} if "CLAPBOARD_METRICS_LISTEN" in variables else {}
        code, said = outcome([command], variables, folder)
        assert code == 1 and "127.0.0.1:1/none cannot be reached" in said, (command, code, said)


def test_a_wrong_setting_would_be_found(folder):
    code, said = outcome(["api"], {"DATABASE_URL": "postgres://h/d", "REDIS_URL": "redis://h", "CLAPBOARD_S3_BUCKET": "videos", "CLAPBOARD_LEASE": "soon"}, folder)
    assert code == 2 and "soon" in said


@contextlib.contextmanager
def postgres():
    """A server of its own on a free port, with an empty database; its URL."""
    [programs] = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    with tempfile.TemporaryDirectory(prefix="clapboard-chart-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        # It refuses to run as root.
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"] if os.getuid() == 0 else []
        if user:
            shutil.chown(folder, "postgres", "postgres")
        data = f"{folder}/data"
        subprocess.run([*user, programs / "initdb", "-D", data, "-U", "clap", "-A", "trust", "--no-sync"], check=True, capture_output=True, cwd=folder)
        probe.close()
        ctl = [*user, programs / "pg_ctl", "-D", data, "-w", "-o", f"-p {port} -h 127.0.0.1 -k {folder} -F", "-l", f"{folder}/log"]
        subprocess.run([*ctl, "start"], check=True, capture_output=True, cwd=folder)
        try:
            yield f"postgres://clap@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*ctl, "-m", "immediate", "stop"], check=True, capture_output=True, cwd=folder)


def psql(url, *statements):
    command = [word for statement in statements for word in ("-c", statement)]
    return subprocess.run(["psql", url, "-qAtX", "-v", "ON_ERROR_STOP=1", *command], check=True, capture_output=True, text=True).stdout.split()


JOBS = """insert into jobs (id, tenant, model, partition, capacity_class, rows, priority, spec_version, spec, cost_tflop, rank,
    virtual_finish, created_at, run_at, max_attempts)
    select gen_random_uuid(), 't', 'm', '{partition}', 0, 1, 'normal', 1, '{{}}', 1, 1, 1, 0, 0, 3 from generate_series(1, {count})"""


def test_keda_counts_what_waits_and_what_runs(folder):
    [scaled] = render("full").of("ScaledObject", "films-worker-fl2va")
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    assert scaled["spec"]["maxReplicaCount"] == 6
    with postgres() as url:
        code, said = outcome(["migrate"], {"DATABASE_URL": url}, folder)
        assert code == 0, said
        count = lambda: psql(url, query)
        assert count() == ["0"]
        psql(url, JOBS.format(partition="ref2va", count=5))
        assert count() == ["0"]
        psql(url, JOBS.format(partition="fl2va", count=2))
        assert count() == ["2"]
        # A running job counts on: else its worker would be one too many.
        psql(url, """update jobs set state = 'running', fence = 1, attempt = 1, claim_token = gen_random_uuid(), worker = gen_random_uuid(),
            lease_expires_at = now_micros() + 60000000 where id = (select id from jobs where partition = 'fl2va' limit 1)""")
        assert count() == ["2"]
        # No more are counted than could matter.
        psql(url, JOBS.format(partition="fl2va", count=1000))
        assert count() == ["7"]
        psql(url, "insert into paused_partitions values ('fl2va')")
        assert count() == ["1"]
