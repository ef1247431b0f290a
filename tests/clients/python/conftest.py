"""The clients of the suite: one service, and keys of two tenants, named by the environment (see ../README.md)."""

import os
import subprocess
import uuid
from pathlib import Path

import openai
import pytest

from receiver import Receiver

# The smallest job that there is.
SHORT = {"num_frames": 22, "num_inference_steps": 2, "seed": 7}
# One that is still at work when something is done about it.
LONG = {"num_frames": 56, "num_inference_steps": 200, "seed": 7}
PROMPT = "A paper boat on a pond"


def setting(name: str) -> str:
    return os.environ[f"CLAPBOARD_TEST_{name}"]


def client_of(key: str, **options: object) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{setting('URL')}/v1", api_key=key, **{"max_retries": 0, **options})


@pytest.fixture(scope="session")
def url() -> str:
    return setting("URL")


@pytest.fixture(scope="session")
def key() -> str:
    return setting("KEY")


@pytest.fixture(scope="session")
def client(key: str) -> openai.OpenAI:
    """May do everything."""
    return client_of(key)


@pytest.fixture(scope="session")
def reader() -> openai.OpenAI:
    """Of the same tenant, and may only look."""
    return client_of(setting("READER_KEY"))


@pytest.fixture(scope="session")
def limited() -> openai.OpenAI:
    """Of the same tenant, and may ask for one video a minute."""
    return client_of(setting("LIMITED_KEY"))


@pytest.fixture(scope="session")
def stranger() -> openai.OpenAI:
    """Of another tenant."""
    return client_of(setting("STRANGER_KEY"))


@pytest.fixture(scope="session")
def video(client: openai.OpenAI):
    """A finished video, which no test deletes."""
    made = client.videos.create_and_poll(prompt=PROMPT, size="64x32", extra_body=SHORT)
    assert made.status == "completed", made
    return made


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Two pictures that a video can start and end with."""
    folder: Path = tmp_path_factory.mktemp("pictures")
    files = []
    for name, size in [("first.png", "96x96"), ("last.png", "112x96")]:
        source = ["-f", "lavfi", "-i", f"testsrc2=size={size}:rate=1", "-frames:v", "1"]
        subprocess.run(["ffmpeg", "-v", "error", "-y", *source, folder / name], check=True)
        files.append((folder / name).read_bytes())
    return files[0], files[1]


@pytest.fixture(scope="session")
def receiver():
    """Hears webhooks."""
    with Receiver() as listening:
        yield listening


@pytest.fixture
def fresh() -> str:
    """A text that no other run has used."""
    return uuid.uuid4().hex
