"""The way in: routes, origins, keys, mounting, lifespan."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


async def test_an_unknown_path_is_a_json_404_with_the_nearest(call):
    answer = await call("POST", "/v1/chat/completion", HELLO)
    assert answer.status == 404
    assert "/v1/chat/completions" in answer.error["message"]
    assert answer.error["code"] == "not_found"


async def test_a_wrong_method_is_405_and_names_the_right_one(call):
    answer = await call("GET", CHAT)
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"
    assert answer.error["code"] == "method_not_allowed"


async def test_models_are_listed_and_shown(call):
    listed = (await call("GET", "/v1/models")).json
    assert listed["object"] == "list"
    (model,) = listed["data"]
    assert model["id"] == "scripted"
    assert model["context_window"] == 512
    assert (await call("GET", "/v1/models/scripted")).json == model
    missing = await call("GET", "/v1/models/some/other")
    assert missing.status == 404
    assert missing.error["code"] == "model_not_found"


async def test_a_head_request_has_headers_and_no_body(call):
    answer = await call("HEAD", "/health")
    assert answer.status == 200
    assert answer.body == b""
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize("root", ["/llm", "/llm/"])
async def test_it_answers_below_the_path_it_is_mounted_at(call, root):
    whole = await call("GET", "/llm/v1/models", root_path=root)
    stripped = await call("GET", "/v1/models", root_path=root)
    assert whole.status == stripped.status == 200


async def test_it_mounts_inside_fastapi(app, engine):

    outer = FastAPI()
    outer.mount("/llm", app)
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.post(f"/llm{CHAT}", json=HELLO)
        assert answer.json()["choices"][0]["message"]["content"] == "Hello"
        assert (await client.get("/llm/nothing")).json()["error"]["code"] == "not_found"


async def test_pages_of_other_sites_are_refused(call, engine):
    answer = await call("POST", CHAT, HELLO, {"origin": "https://evil.example"})
    assert answer.status == 403
    assert answer.error["code"] == "origin_not_allowed"
    assert engine.requests == []


async def test_pages_of_this_machine_may_read_the_answer(call):
    origin = "http://localhost:3000"
    answer = await call("POST", CHAT, HELLO, {"origin": origin})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == origin


async def test_a_preflight_is_answered_for_pages_that_may(call):
    ask = {
        "origin": "http://localhost:3000",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    answer = await call("OPTIONS", CHAT, headers=ask)
    assert answer.status == 204
    allowed = answer.headers["access-control-allow-headers"]
    assert allowed == "authorization,content-type"
    other = await call(
        "OPTIONS", CHAT, headers={**ask, "origin": "https://evil.example"}
    )
    assert other.status == 403


async def test_without_a_key_that_fits_only_health_answers(call, make_app):
    app = make_app(api_keys=("right", "other"))
    without = await call("POST", CHAT, HELLO, app=app)
    assert without.status == 401
    assert without.headers["www-authenticate"] == "Bearer"
    wrong = await call("POST", CHAT, HELLO, {"authorization": "Bearer no"}, app=app)
    assert wrong.error["code"] == "invalid_api_key"
    assert (await call("GET", "/v1/models", app=app)).status == 401
    assert (await call("GET", "/metrics", app=app)).status == 401
    for probe in ("/health", "/ping", "/version"):
        assert (await call("GET", probe, app=app)).status == 200
    for key in ("right", "other"):
        headers = {"authorization": f"Bearer {key}"}
        assert (await call("POST", CHAT, HELLO, headers, app=app)).status == 200


async def test_a_key_is_one_tenant_whatever_users_it_names(call, engine, make_app):
    app = make_app(api_keys=("secret", "other"))
    for key, user in (("secret", "ada"), ("secret", "bob"), ("other", "ada")):
        headers = {"authorization": f"Bearer {key}"}
        await call("POST", CHAT, {**HELLO, "user": user}, headers, app=app)
    first, second, third = (tenant for _, _, tenant in engine.requests)
    assert first == second != third
    assert not any(name in first + third for name in ("secret", "other", "ada"))


async def test_a_socket_with_a_wrong_key_is_refused_at_the_handshake(make_app):
    app = make_app(api_keys=("right",))
    assert await handshake(app, {"authorization": "Bearer wrong"}) == 401
    assert await handshake(app, {"authorization": "Bearer right"}) == 101
    assert await handshake(app, {}, path="/v1/realtime") == 401
    # Here the first frame may bring one.
    assert await handshake(app, {}) == 101


async def test_a_key_may_come_as_a_subprotocol(make_app):
    app = make_app(api_keys=("right",))
    for path in ("/v1/responses", "/v1/realtime"):
        for key, status in (("right", 101), ("wrong", 401)):
            offers = ["legato.json", f"openai-insecure-api-key.{key}"]
            assert await handshake(app, {}, path=path, subprotocols=offers) == status


async def test_a_socket_of_another_site_is_refused_at_the_handshake(app):
    assert await handshake(app, {"origin": "https://evil.example"}) == 403
    assert await handshake(app, {"origin": "null"}) == 403
    assert await handshake(app, {"origin": "http://127.0.0.1:5173"}) == 101


async def test_a_socket_elsewhere_is_404(app):
    assert await handshake(app, {}, path="/v1/other") == 404


async def test_a_server_that_knows_no_denial_gets_a_close(app):
    headers = {"origin": "https://evil.example"}
    assert await handshake(app, headers, extensions={}) == 1008


async def handshake(
    app, headers, path="/v1/responses", extensions=None, subprotocols=()
):
    """Return the status (or code) a handshake ends with."""
    inbox = asyncio.Queue()
    inbox.put_nowait({"type": "websocket.connect"})
    inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": path,
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "subprotocols": list(subprotocols),
        "extensions": {"websocket.http.response": {}}
        if extensions is None
        else extensions,
    }
    await app(scope, inbox.get, send)
    if sent[0]["type"] == "websocket.accept":
        return 101
    return sent[0].get("status") or sent[0]["code"]


async def test_the_lifespan_is_answered_and_its_end_closes_the_gate(app):
    inbox, sent = asyncio.Queue(), []

    async def send(message):
        sent.append(message["type"])

    inbox.put_nowait({"type": "lifespan.startup"})
    inbox.put_nowait({"type": "lifespan.shutdown"})
    await app({"type": "lifespan"}, inbox.get, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert app.gate.state == "draining"
