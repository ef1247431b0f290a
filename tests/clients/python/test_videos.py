"""What the client's own methods do with videos."""

import hashlib

import openai
import pytest

from conftest import PROMPT, SHORT


def test_a_video_is_created_and_polled(video) -> None:
    assert (video.object, video.status, video.progress, video.error) == ("video", "completed", 100, None)
    assert (video.size, video.prompt, video.remixed_from_video_id) == ("64x32", PROMPT, None)
    assert video.created_at <= video.completed_at
    assert video.model_extra["num_frames"] == 22 and video.model_extra["seed"] == 7


def test_a_video_may_have_an_end(client: openai.OpenAI) -> None:
    life = {"anchor": "completed_at", "seconds": 7200}
    made = client.videos.create_and_poll(prompt=PROMPT, size="64x32", extra_body={**SHORT, "expires_after": life})
    assert made.expires_at == made.completed_at + 7200


def test_a_size_alone_is_enough(client: openai.OpenAI) -> None:
    video = client.videos.create(prompt=PROMPT, size="96x64")
    assert (video.status, video.size, video.progress) == ("queued", "96x64", 0)
    client.videos.delete(video.id)


def test_polls_are_told_how_long_to_wait(client: openai.OpenAI, video) -> None:
    reply = client.videos.with_raw_response.retrieve(video.id)
    assert reply.headers["x-request-id"]
    made = client.videos.with_raw_response.create(prompt=PROMPT, size="64x32", extra_body=SHORT)
    assert 2000 <= int(made.headers["openai-poll-after-ms"]) <= 5000
    client.videos.delete(made.parse().id)


def test_content_comes_whole_and_in_parts(client: openai.OpenAI, video, tmp_path) -> None:
    file = tmp_path / "video.mp4"
    client.videos.download_content(video.id).write_to_file(file)
    whole = file.read_bytes()
    assert whole[4:8] == b"ftyp"
    raw = client.videos.with_raw_response
    reply = raw.download_content(video.id, variant="video")
    assert reply.headers["content-type"] == "video/mp4" and reply.headers["accept-ranges"] == "bytes"
    etag = reply.headers["etag"]
    part = raw.download_content(video.id, extra_headers={"Range": "bytes=10-109"})
    assert part.status_code == 206 and part.headers["content-range"] == f"bytes 10-109/{len(whole)}"
    assert part.content == whole[10:110]
    rest = raw.download_content(video.id, extra_headers={"Range": f"bytes={len(whole) - 5}-", "If-Range": etag})
    assert rest.status_code == 206 and rest.content == whole[-5:]
    other = raw.download_content(video.id, extra_headers={"Range": "bytes=0-1", "If-Range": '"another"'})
    assert other.status_code == 200 and hashlib.sha256(other.content).digest() == hashlib.sha256(whole).digest()
    with pytest.raises(openai.APIStatusError) as raised:
        client.videos.download_content(video.id, extra_headers={"Range": f"bytes={len(whole)}-"})
    assert (raised.value.status_code, raised.value.code) == (416, "range_not_satisfiable")


def test_pictures_of_a_video_are_variants_of_it(client: openai.OpenAI, video) -> None:
    for variant, content_type, head in [
        ("thumbnail", "image/webp", b"RIFF"),
        ("spritesheet", "image/jpeg", b"\xff\xd8\xff"),
    ]:
        reply = client.videos.with_raw_response.download_content(video.id, variant=variant)
        assert reply.headers["content-type"] == content_type and reply.content.startswith(head)
    with pytest.raises(openai.BadRequestError) as raised:
        client.videos.download_content(video.id, variant="poster")
    assert raised.value.param == "variant"


def test_a_list_is_paged_to_its_end(client: openai.OpenAI, stranger: openai.OpenAI, fresh: str) -> None:
    made = [
        client.videos.create(prompt=f"{PROMPT} {number}", size="64x32", extra_body={**SHORT, "metadata": {"of": fresh}})
        for number in range(5)
    ]
    ids = [video.id for video in made]
    filtered = {"metadata[of]": fresh}
    assert [video.id for video in client.videos.list(limit=2, order="asc", extra_query=filtered)] == ids
    page = client.videos.list(limit=2, extra_query=filtered)
    assert [video.id for video in page.data] == ids[:2:-1] and page.has_more
    assert [video.id for video in page] == ids[::-1]
    seen = [video.id for video in client.videos.list(limit=3)]
    assert len(seen) == len(set(seen)) and set(ids) <= set(seen)
    assert not set(ids) & {video.id for video in stranger.videos.list()}
    for id in ids:
        client.videos.delete(id)
    assert client.videos.list(extra_query=filtered).data == []


def test_a_deleted_video_is_gone(client: openai.OpenAI) -> None:
    video = client.videos.create(prompt=PROMPT, size="64x32", extra_body=SHORT)
    assert client.videos.retrieve(video.id).id == video.id
    deleted = client.videos.delete(video.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (video.id, "video.deleted", True)
    for look in [client.videos.retrieve, client.videos.delete, client.videos.download_content]:
        with pytest.raises(openai.NotFoundError) as raised:
            look(video.id)
        assert raised.value.code == "not_found"


def test_a_remix_keeps_all_but_the_prompt(client: openai.OpenAI, video) -> None:
    remix = client.videos.remix(video.id, prompt="The boat sinks")
    assert remix.id != video.id and remix.remixed_from_video_id == video.id
    assert (remix.prompt, remix.size, remix.model_extra["num_frames"]) == ("The boat sinks", "64x32", 22)
    done = client.videos.poll(remix.id)
    assert (done.status, done.remixed_from_video_id) == ("completed", video.id)


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    models = list(client.models.list())
    assert models and all(model.object == "model" for model in models)
