"""How the client encodes what it is given, and that all of it arrives."""

import base64
import json

import openai
import pytest

from conftest import PROMPT, SHORT


def create(client: openai.OpenAI, more: dict, **fields: object):
    made = client.videos.create(**{"prompt": PROMPT, "extra_body": {**SHORT, **more}, **fields})
    client.videos.delete(made.id)
    return made.model_extra


def data_url(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()


def test_nested_parameters_arrive_as_objects(client: openai.OpenAI) -> None:
    # extra_params[task], extra_params[target][aspect_ratio]
    made = create(client, {"extra_params": {"task": "t2va", "target": {"aspect_ratio": "1:1"}}}, size="64x64")
    assert (made["task"], made["num_frames"]) == ("t2va", 22)
    made = create(client, {"metadata": {"a": "1", "b": "2"}}, size="64x32")
    assert made["metadata"] == {"a": "1", "b": "2"}


def test_the_same_as_a_text_of_json(client: openai.OpenAI) -> None:
    made = create(client, {"extra_params": json.dumps({"task": "t2va"}), "metadata": '{"a": "1"}'}, size="64x32")
    assert (made["task"], made["metadata"]) == ("t2va", {"a": "1"})


@pytest.mark.parametrize("more", [{}, {"extra_params": {"frame_indices": [0]}}])
def test_an_upload_needs_neither_a_name_nor_a_type(client: openai.OpenAI, pictures, more: dict) -> None:
    assert create(client, more, size="64x32", input_reference=pictures[0])["task"] == "fl2va"


def test_files_may_have_any_name(client: openai.OpenAI, pictures) -> None:
    for name in ["../../etc/passwd", "картинка ☃.png", "a;b=\"c\".png"]:
        assert create(client, {}, size="64x32", input_reference=(name, pictures[0]))["task"] == "fl2va"


def test_a_list_of_files_is_taken_in_its_order(client: openai.OpenAI, pictures) -> None:
    # input_reference[], twice
    made = create(client, {}, size="64x32", input_reference=[pictures[0], pictures[1]])
    assert made["task"] == "fl2va"
    with pytest.raises(openai.BadRequestError) as raised:
        create(client, {"extra_params": {"task": "fl2va"}}, size="64x32", input_reference=[pictures[0]] * 3)
    assert raised.value.code in ("too_many_references", "invalid_reference_combination")


def test_a_list_of_objects_is_taken_in_its_order(client: openai.OpenAI, pictures) -> None:
    # image_reference[][image_url], twice
    references = [{"image_url": data_url(picture)} for picture in pictures]
    assert create(client, {"image_reference": references}, size="64x32")["task"] == "fl2va"
    assert create(client, {"image_reference": references[0]}, size="64x32")["task"] == "fl2va"
    assert create(client, {"image_reference": json.dumps(references)}, size="64x32")["task"] == "fl2va"
    with pytest.raises(openai.BadRequestError) as raised:
        create(client, {"image_reference": [{**references[0], "detail": "high"}]}, size="64x32")
    assert raised.value.code == "unknown_parameter"


def test_a_broken_file_is_refused_by_name(client: openai.OpenAI, pictures) -> None:
    for broken in [b"", b"no picture", pictures[0][:60]]:
        with pytest.raises(openai.BadRequestError) as raised:
            create(client, {}, size="64x32", input_reference=("a.png", broken))
        assert (raised.value.code, raised.value.param) == ("invalid_reference_media", "input_reference")
