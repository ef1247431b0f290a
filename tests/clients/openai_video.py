"""Creates, polls and downloads a video with the official OpenAI client.

usage: openai_video.py URL FILE

The request has a size alone, as OpenAI's clients send it; everything else follows from the checkpoint.
"""

import sys

import openai


def main(url: str, file: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)

    video = client.videos.create(prompt="A red fox runs through fresh snow at sunrise", size="96x64")
    print(video.status, video.id)
    assert video.object == "video" and video.progress == 0, video

    video = client.videos.poll(video.id)
    assert video.status == "completed" and video.error is None, video
    print(video.status, video.size, video.progress, "%")

    assert any(listed.id == video.id for listed in client.videos.list()), "the list does not hold it"
    client.videos.download_content(video.id).write_to_file(file)

    try:
        client.videos.create(prompt="", size="96x64")
    except openai.BadRequestError as error:
        assert (error.code, error.param) == ("missing_required_parameter", "prompt"), error
    else:
        raise AssertionError("an empty prompt was accepted")


if __name__ == "__main__":
    main(*sys.argv[1:])
