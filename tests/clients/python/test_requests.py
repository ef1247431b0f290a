"""What the client has no methods for, through its raw requests."""

import json
import urllib.request

import openai
import pytest
from openai._legacy_response import HttpxBinaryResponseContent
from openai.types import Video

from conftest import LONG, PROMPT, SHORT


def events(url: str, key: str, id: str, last: str | None = None) -> list[dict[str, str]]:
    """Reads a video's events to their end."""
    headers = {"authorization": f"Bearer {key}", "accept": "text/event-stream"}
    if last is not None:
        headers["last-event-id"] = last
    request = urllib.request.Request(f"{url}/v1/videos/{id}/events", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        if reply.status == 204:
            return []
        assert reply.headers["content-type"].startswith("text/event-stream")
        text = reply.read().decode()
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


def test_a_cancelled_video_stays_and_says_so(client: openai.OpenAI) -> None:
    video = client.videos.create(prompt=PROMPT, size="96x64", extra_body=LONG)
    for _ in range(2):
        client.post(f"/videos/{video.id}/cancel", cast_to=Video)
    ended = client.videos.poll(video.id)
    assert (ended.status, ended.error.code) == ("failed", "cancelled")
    again = client.post(f"/videos/{video.id}/cancel", cast_to=Video)
    assert (again.id, again.status, again.completed_at) == (video.id, "failed", ended.completed_at)
    client.videos.delete(video.id)


def test_a_finished_video_is_not_cancelled(client: openai.OpenAI, video) -> None:
    assert client.post(f"/videos/{video.id}/cancel", cast_to=Video).status == "completed"


def test_events_lead_to_the_end(client: openai.OpenAI, url: str, key: str) -> None:
    video = client.videos.create(prompt=PROMPT, size="64x32", extra_body={**SHORT, "num_inference_steps": 40})
    heard = events(url, key, video.id)
    assert heard[-1]["event"] == "video.completed"
    assert {event["event"] for event in heard[:-1]} <= {"video.progress"}
    objects = [json.loads(event["data"]) for event in heard]
    assert all(told["id"] == video.id for told in objects)
    progress = [told["progress"] for told in objects]
    assert progress == sorted(progress) and progress[-1] == 100
    ids = [tuple(int(part) for part in event["id"].split("-")) for event in heard]
    assert ids == sorted(ids)
    # Whoever comes late is told how it stands now; whoever knows it, that there is nothing to come.
    late = events(url, key, video.id, last=heard[0]["id"])
    assert [event["event"] for event in late] == ["video.completed"]
    assert events(url, key, video.id, last=heard[-1]["id"]) == []


def test_events_of_nobodys_video_are_an_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.get("/videos/video_gen_00000000000000000000000000000000/events", cast_to=object)
    assert raised.value.code == "not_found"


def test_a_request_in_json_is_as_good(client: openai.OpenAI) -> None:
    body = {"prompt": PROMPT, "size": "64x32", "metadata": {"a": "1"}, **SHORT}
    video = client.post("/videos", body=body, cast_to=Video)
    assert (video.status, video.model_extra["metadata"]) == ("queued", {"a": "1"})
    client.videos.delete(video.id)


def test_the_sync_route_gives_the_file(client: openai.OpenAI) -> None:
    body = {"prompt": PROMPT, "size": "64x32", **SHORT}
    reply = client.post("/videos/sync", body=body, cast_to=HttpxBinaryResponseContent)
    assert reply.content[4:8] == b"ftyp"
    headers = reply.response.headers
    assert headers["content-type"] == "video/mp4" and float(headers["x-inference-time-s"]) > 0
    assert client.videos.retrieve(headers["x-video-id"]).status == "completed"
