"""Text to token ids and back over HTTP."""

import pytest

from legato.engine import Engine, FakeModel
from legato.serve import create_app

pytestmark = pytest.mark.anyio


async def test_a_text_comes_back_from_its_tokens(call):
    async with Engine(FakeModel()) as engine:
        app = create_app(engine)
        sent = {"prompt": "wörld 🌍", "model": "fake"}
        encoded = (await call("POST", "/tokenize", sent, app=app)).json
        assert encoded["count"] == len(encoded["tokens"]) > 0
        assert encoded["max_model_len"] == engine.max_context
        sent = {"tokens": encoded["tokens"]}
        decoded = (await call("POST", "/detokenize", sent, app=app)).json
        assert decoded == {"prompt": "wörld 🌍"}


async def test_a_conversation_is_rendered_by_the_template(call):
    async with Engine(FakeModel()) as engine:
        app = create_app(engine)
        messages = [{"role": "user", "content": "hi"}]
        answer = await call("POST", "/tokenize", {"messages": messages}, app=app)
        assert tuple(answer.json["tokens"]) == engine.encode(messages)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "x", "messages": []}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"prompt": "x", "model": "gpt"}, "model"),
        ("/tokenize", {"text": "x"}, "text"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
        ("/detokenize", {"tokens": [256]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1.5]}, "tokens[0]"),
    ],
)
async def test_a_bad_body_is_refused_by_name(call, path, body, param):
    answer = await call("POST", path, body)
    assert answer.status in (400, 404)
    assert answer.error["param"] == param
