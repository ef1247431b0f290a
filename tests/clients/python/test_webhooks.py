"""Webhook endpoints through the client's methods, and deliveries through its checks of signatures."""

import json

import openai
import pytest
import standardwebhooks

from conftest import PROMPT, SHORT

BOTH = ["video.completed", "video.failed"]


@pytest.fixture
def endpoint(client: openai.OpenAI, receiver, fresh: str):
    """An endpoint that hears on a path of its own."""
    made = client.webhooks.create(event_types=BOTH, name=fresh, url=receiver.url(f"/{fresh}"))
    yield made
    client.webhooks.delete(made.id)


def short(client: openai.OpenAI, **more: object):
    return client.videos.create(prompt=PROMPT, size="64x32", extra_body={**SHORT, **more})


def test_endpoints_are_made_found_changed_and_deleted(client: openai.OpenAI, stranger, receiver, fresh: str) -> None:
    made = client.webhooks.create(event_types=["video.completed"], name="first", url=receiver.url("/unused"))
    assert (made.object, made.name, made.event_types) == ("webhook_endpoint", "first", ["video.completed"])
    assert made.signing_secret.startswith("whsec_") and made.signing_secret_hint != made.signing_secret
    found = client.webhooks.retrieve(made.id)
    assert (found.url, found.created_at) == (made.url, made.created_at)
    assert "signing_secret" not in (found.model_extra or {})
    changed = client.webhooks.update(made.id, name="second", event_types=BOTH)
    assert (changed.name, sorted(changed.event_types), changed.url) == ("second", BOTH, made.url)
    others = [client.webhooks.create(event_types=BOTH, name=fresh, url=receiver.url("/unused")) for _ in range(2)]
    listed = [endpoint.id for endpoint in client.webhooks.list(limit=1)]
    assert len(listed) == len(set(listed)) and {made.id, *(other.id for other in others)} <= set(listed)
    with pytest.raises(openai.NotFoundError):
        stranger.webhooks.retrieve(made.id)
    for id in [made.id, *(other.id for other in others)]:
        deleted = client.webhooks.delete(id)
        assert (deleted.id, deleted.deleted, deleted.object) == (id, True, "webhook_endpoint.deleted")
    with pytest.raises(openai.NotFoundError) as raised:
        client.webhooks.retrieve(made.id)
    assert raised.value.code == "not_found"


def test_the_event_types_are_told(client: openai.OpenAI) -> None:
    assert sorted(client.webhooks.event_types.list().data) == BOTH


def test_an_address_that_cannot_be_told_is_refused(client: openai.OpenAI) -> None:
    for url, code in [
        ("nowhere", "invalid_webhook_url"),
        ("http://example.com/", "invalid_webhook_url"),
        ("https://169.254.169.254/", "webhook_url_forbidden"),
    ]:
        with pytest.raises(openai.BadRequestError) as raised:
            client.webhooks.create(event_types=BOTH, name="x", url=url)
        assert (raised.value.code, raised.value.param) == (code, "url")


def test_the_end_of_a_video_comes_signed(client: openai.OpenAI, endpoint, receiver) -> None:
    video = short(client)
    (heard,) = receiver.wait(f"/{endpoint.name}")
    event = client.webhooks.unwrap(heard.body, heard.headers, secret=endpoint.signing_secret)
    assert (event.type, event.data.id, event.object) == ("video.completed", video.id, "event")
    assert event.id == heard.headers["webhook-id"]
    told = standardwebhooks.Webhook(endpoint.signing_secret).verify(heard.body, heard.headers)
    assert told == json.loads(heard.body)
    client.webhooks.verify_signature(heard.body, heard.headers, secret=endpoint.signing_secret)
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(heard.body + b" ", heard.headers, secret=endpoint.signing_secret)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(endpoint.signing_secret).verify(heard.body + b" ", heard.headers)
    # It was told after it had come true.
    assert client.videos.retrieve(video.id).status == "completed"


def test_a_test_is_sent_at_once_and_signed(client: openai.OpenAI, endpoint, receiver) -> None:
    result = client.webhooks.test(endpoint.id, event_type="video.failed")
    assert (result.object, result.success, result.status_code) == ("webhook_endpoint.test", True, 200)
    assert (result.event_type, result.webhook_endpoint_id) == ("video.failed", endpoint.id)
    (heard,) = receiver.wait(f"/{endpoint.name}")
    assert client.webhooks.unwrap(heard.body, heard.headers, secret=endpoint.signing_secret).type == "video.failed"


def test_a_rotated_secret_may_leave_the_old_one_good_for_a_day(client: openai.OpenAI, endpoint, receiver) -> None:
    rotated = client.webhooks.rotate_secret(endpoint.id, keep_old_secret_active_for_24_hours=True)
    assert rotated.signing_secret not in (None, endpoint.signing_secret)
    client.webhooks.test(endpoint.id, event_type="video.completed")
    (heard,) = receiver.wait(f"/{endpoint.name}")
    for secret in [endpoint.signing_secret, rotated.signing_secret]:
        client.webhooks.verify_signature(heard.body, heard.headers, secret=secret)
        standardwebhooks.Webhook(secret).verify(heard.body, heard.headers)
    last = client.webhooks.rotate_secret(endpoint.id)
    client.webhooks.test(endpoint.id, event_type="video.completed")
    heard = receiver.wait(f"/{endpoint.name}", 2)[-1]
    client.webhooks.verify_signature(heard.body, heard.headers, secret=last.signing_secret)
    for old in [endpoint.signing_secret, rotated.signing_secret]:
        with pytest.raises(openai.InvalidWebhookSignatureError):
            client.webhooks.verify_signature(heard.body, heard.headers, secret=old)


def test_a_job_has_a_webhook_of_its_own(client: openai.OpenAI, receiver, fresh: str) -> None:
    secret = client.get("/webhook_secret", cast_to=object)["signing_secret"]
    video = short(client, webhook_url=receiver.url(f"/{fresh}"), webhook_events=["video.completed"])
    (heard,) = receiver.wait(f"/{fresh}")
    event = client.webhooks.unwrap(heard.body, heard.headers, secret=secret)
    assert (event.type, event.data.id) == ("video.completed", video.id)


def test_deliveries_are_listed_and_sent_again(client: openai.OpenAI, endpoint, receiver) -> None:
    video = short(client)
    (heard,) = receiver.wait(f"/{endpoint.name}")
    listed = client.get("/webhook_deliveries", cast_to=object, options={"params": {"endpoint": endpoint.id}})
    (delivery,) = listed["data"]
    assert (delivery["id"], listed["object"]) == (heard.headers["webhook-id"], "list")
    client.post(f"/webhook_deliveries/{delivery['id']}/replay", cast_to=object)
    again = receiver.wait(f"/{endpoint.name}", 2)[-1]
    assert (again.headers["webhook-id"], again.body) == (delivery["id"], heard.body)
    client.webhooks.verify_signature(again.body, again.headers, secret=endpoint.signing_secret)
    assert json.loads(again.body)["data"]["id"] == video.id
