"""What the client raises, and what its exceptions tell."""

import openai
import pytest

from conftest import PROMPT, SHORT, client_of


def short(client: openai.OpenAI, **more: object):
    return client.videos.create(**{"prompt": PROMPT, "size": "64x32", "extra_body": SHORT, **more})


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": ""}, "missing_required_parameter", "prompt"),
        ({"prompt": "x" * 7001}, "string_above_max_length", "prompt"),
        ({"size": "64"}, "invalid_value", "size"),
        ({"model": "another"}, "model_not_found", "model"),
        ({"seconds": "99"}, "invalid_duration", "seconds"),
        ({"extra_body": {"fps": 25}}, "invalid_fps", "fps"),
        ({"extra_body": {"image_reference": {"image_url": "/etc/passwd"}}}, "invalid_reference_url", None),
        ({"extra_body": {"image_reference": '{"image_url'}}, "invalid_json", "image_reference"),
        ({"extra_body": {"lora": {"name": "a", "path": "b"}}}, "unsupported_parameter", "lora"),
    ],
)
def test_a_bad_request_names_its_field(client: openai.OpenAI, fields: dict, code: str, param: str | None) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        short(client, **fields)
    error = raised.value
    assert (error.status_code, error.code, error.type) == (400, code, "invalid_request_error")
    assert param is None or error.param == param
    assert error.request_id and error.body["message"]


def test_unknown_and_foreign_videos_are_not_found(client: openai.OpenAI, stranger: openai.OpenAI, video) -> None:
    for asking, id in [(client, "video_gen_00000000000000000000000000000000"), (stranger, video.id), (client, "x")]:
        with pytest.raises(openai.NotFoundError) as raised:
            asking.videos.retrieve(id)
        assert raised.value.code == "not_found"


def test_a_key_that_nobody_has_made_is_refused() -> None:
    with pytest.raises(openai.AuthenticationError) as raised:
        client_of("sk-clapboard-unknown").videos.list()
    assert (raised.value.code, raised.value.type) == ("invalid_api_key", "authentication_error")
    assert raised.value.response.headers["www-authenticate"].startswith("Bearer")


def test_a_key_may_do_what_its_scopes_say(reader: openai.OpenAI, video) -> None:
    assert reader.videos.retrieve(video.id).id == video.id
    for refused in [
        lambda: short(reader),
        lambda: reader.videos.delete(video.id),
        lambda: reader.videos.remix(video.id, prompt="x"),
        lambda: reader.webhooks.list(),
    ]:
        with pytest.raises(openai.PermissionDeniedError) as raised:
            refused()
        assert (raised.value.code, raised.value.type) == ("insufficient_scope", "permission_error")


def test_a_name_is_good_for_one_request(client: openai.OpenAI, fresh: str) -> None:
    headers = {"Idempotency-Key": fresh}
    first = short(client, extra_headers=headers)
    again = client.videos.with_raw_response.create(
        prompt=PROMPT, size="64x32", extra_body=SHORT, extra_headers=headers
    )
    assert again.parse().id == first.id and again.headers["idempotency-replayed"] == "true"
    with pytest.raises(openai.ConflictError) as raised:
        # With the client's own retries: it has to see that there is no point in them.
        short(client.with_options(max_retries=2), prompt="Another", extra_headers=headers)
    assert raised.value.code == "idempotency_key_reused"
    assert raised.value.response.headers["x-should-retry"] == "false"
    client.videos.delete(first.id)


def test_a_rate_is_told_and_kept(limited: openai.OpenAI) -> None:
    reply = limited.videos.with_raw_response.create(prompt=PROMPT, size="64x32", extra_body=SHORT)
    assert reply.headers["x-ratelimit-limit-requests"] == "1"
    assert reply.headers["x-ratelimit-remaining-requests"] == "0"
    assert reply.headers["x-ratelimit-reset-requests"]
    with pytest.raises(openai.RateLimitError) as raised:
        short(limited)
    error = raised.value
    assert error.code == "rate_limit_exceeded"
    assert 1 <= int(error.response.headers["retry-after"]) <= 60
    assert 1 <= int(error.response.headers["retry-after-ms"]) <= 60_000
    # Only what makes videos counts.
    limited.videos.delete(reply.parse().id)


def test_what_is_decided_against_is_said_and_not_tried_again(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        client.videos.get_character("char_1")
    assert (raised.value.status_code, raised.value.code) == (501, "unsupported")
    assert raised.value.response.headers["x-should-retry"] == "false"
