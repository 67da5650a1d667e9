"""Bodies under limits."""

import asyncio

import pytest

from legato.serve import exchange

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"


async def test_another_content_type_is_415(call):
    answer = await call("POST", CHAT, b"{}", {"content-type": "text/plain"})
    assert answer.status == 415
    assert "application/json" in answer.error["message"]
    assert (await call("POST", CHAT)).status == 415


async def test_a_charset_is_no_other_content_type(call):
    kind = {"content-type": "application/json; charset=utf-8"}
    answer = await call("POST", CHAT, {"messages": []}, kind)
    assert answer.error["param"] == "messages"


async def test_a_body_over_the_limit_is_refused_by_its_length_alone(
    call, make_app, monkeypatch
):
    monkeypatch.setattr(exchange, "LINGER_S", 0.01)
    app = make_app(max_body_bytes=100)
    headers = {"content-type": "application/json", "content-length": "101"}
    answer = await call("POST", CHAT, [], headers, app=app)
    assert answer.status == 413
    assert "100" in answer.error["message"]
    assert answer.headers["connection"] == "close"
    assert not answer.messages[-1].get("more_body")


async def test_a_refused_body_is_heard_out_only_so_far(begin, make_app, monkeypatch):
    monkeypatch.setattr(exchange, "LINGER_BYTES", 50)
    headers = {"content-type": "application/json", "content-length": "101"}
    request = begin("POST", CHAT, [], headers, app=make_app(max_body_bytes=100))
    await request.wait_for(b"request_too_large")
    assert not request.task.done()
    for _ in range(5):
        request.push({"type": "http.request", "body": b"x" * 10, "more_body": True})
    await request.done()
    assert request.error["code"] == "request_too_large"


async def test_a_chunked_body_over_the_limit_is_refused_while_it_comes(begin, make_app):
    request = begin(
        "POST", CHAT, [b"x" * 60, b"x" * 60, b"x"], app=make_app(max_body_bytes=100)
    )
    await request.done()
    assert request.status == 413


async def test_a_body_that_never_comes_is_given_up(begin, make_app):
    headers = {"content-type": "application/json"}
    request = begin("POST", CHAT, [], headers, app=make_app(body_deadline_s=0.01))
    await request.done()
    assert request.status == 408


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"null", b'{"a":1e999}'])
async def test_a_body_that_is_no_json_object_is_400(call, body):
    answer = await call("POST", CHAT, body)
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("leave_first", [True, False])
async def test_leaving_while_the_body_comes_ends_the_request(begin, leave_first):
    request = begin("POST", CHAT, [], {"content-type": "application/json"})
    if leave_first:
        request.disconnect()
    else:
        request.push({"type": "http.request", "body": b"{", "more_body": True})
        await asyncio.sleep(0)
        request.disconnect()
    await request.done()
    assert request.messages == []
