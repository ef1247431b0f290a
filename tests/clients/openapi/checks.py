"""What holds for every reply, whatever was sent: the checks that schemathesis runs over /openapi.json."""

import schemathesis


@schemathesis.hook
def before_load_schema(_context, raw_schema: dict) -> None:
    """Lets files be texts: schemathesis cannot yet tell apart the alternatives of a field when one of them is a file."""

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if node.get("format") == "binary":
                del node["format"]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(raw_schema)


# Those that are an answer, not an accident: what is decided against, and a service that has no room.
ANSWERS = {501: {"unsupported"}, 503: {"no_capacity"}}


@schemathesis.check
def no_server_error(_context, response, _case) -> None:
    """The service never fails over a request."""
    if response.status_code >= 500:
        code = response.json()["error"]["code"]
        assert code in ANSWERS.get(response.status_code, ()), f"{response.status_code} {code}"
        if response.status_code == 501:
            assert response.headers["x-should-retry"] == ["false"], "clients try it again"


@schemathesis.check
def errors_have_one_shape(_context, response, _case) -> None:
    """Every error is OpenAI's error object in JSON, and nothing else."""
    if response.status_code < 400 or response.request.method == "HEAD":
        return
    assert response.headers["content-type"][0].startswith("application/json"), response.headers["content-type"]
    body = response.json()
    assert set(body) == {"error"}, f"beside the error stands {set(body)}"
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}, f"the error has {set(error)}"
    assert isinstance(error["message"], str) and error["message"], "it says nothing"
    assert isinstance(error["type"], str) and error["type"], "it has no type"
    assert isinstance(error["code"], str) and error["code"], "it has no code"
    assert error["param"] is None or isinstance(error["param"], str), "param is no text"


@schemathesis.check
def replies_have_a_request_id(_context, response, _case) -> None:
    """Every reply can be found in the log."""
    assert response.headers.get("x-request-id", [""])[0], "there is no x-request-id"
