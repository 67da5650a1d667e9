"""Valid requests for every endpoint and every event of every socket, to be spoiled."""

from dataclasses import dataclass

from legato.protocol import ai_sdk
from legato.protocol.openai import extensions, realtime, response_fields
from legato.protocol.openai.chat import ChatRequest
from legato.protocol.openai.completion import CompletionRequest
from legato.protocol.openai.realtime_settings import ResponseFields, SessionFields
from legato.protocol.openai.response_fields import CreateBody
from legato.protocol.tokens import DetokenizeBody, TokenizeBody

from .shapes import check_event

HELLO = {"role": "user", "content": "hi"}
PARTS = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
SAMPLING = {"temperature": 0.5, "seed": 1, "stop": ["x"], "logit_bias": {"5": 1.0}}

NOW = {"type": "function", "name": "now", "parameters": {"type": "object"}}
NAMED = {"type": "function", "name": "now"}
CALLED = {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"}
GAVE = {"type": "function_call_output", "call_id": "c", "output": "9"}

UI_MESSAGE = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
UI_CHAT = (
    ai_sdk.PostBody.__struct_fields__,
    [
        {"messages": [UI_MESSAGE], "id": "chat", "trigger": "submit-message"},
        {"messages": [UI_MESSAGE], "system": "Be brief.", "max_output_tokens": 3},
    ],
)
# Path: names of fields, and valid bodies.
ENDPOINTS = {
    "/v1/chat/completions": (
        ChatRequest.__struct_fields__,
        [
            {"messages": [HELLO]},
            {"messages": [PARTS, HELLO], "stream": True, "n": 2, "max_tokens": 3},
            {"messages": [HELLO], "logprobs": True, "top_logprobs": 2, **SAMPLING},
        ],
    ),
    "/v1/completions": (
        CompletionRequest.__struct_fields__,
        [
            {"prompt": "hi"},
            {"prompt": ["a", "b"], "stream": True, "logprobs": 1},
            {"prompt": [1, 2, 3], "max_tokens": 9, "ignore_eos": True, **SAMPLING},
            {"prompt": [[1], [2]], "stream_options": {"include_usage": True}},
        ],
    ),
    "/v1/responses": (
        CreateBody.__struct_fields__,
        [
            {"input": "hi"},
            {"input": [HELLO], "stream": True, "instructions": "Be brief."},
            {"input": "hi", "store": False, "top_logprobs": 1, **SAMPLING},
            {"input": "hi", "previous_response_id": "resp_1"},
            {"input": [HELLO, CALLED, GAVE], "tools": [NOW], "tool_choice": "auto"},
            {"input": "hi", "tools": [NOW], "tool_choice": NAMED, "stream": True},
        ],
    ),
    "/tokenize": (
        TokenizeBody.__struct_fields__,
        [{"prompt": "hi"}, {"messages": [PARTS, HELLO]}],
    ),
    "/detokenize": (DetokenizeBody.__struct_fields__, [{"tokens": [1, 2, 3]}]),
    "/v1/chat": UI_CHAT,
    "/api/chat": UI_CHAT,
    "/admin/batching": (
        ("type", "max_batch", "max_delay_s", "size", "preferred", "one_shot"),
        [
            {"type": "continuous"},
            {"type": "dynamic", "max_batch": 4, "max_delay_s": 0, "preferred": [2]},
            {"type": "auto", "max_batch": 4},
        ],
    ),
}


@dataclass(frozen=True)
class SocketSeeds:
    """What a socket takes.

    Args:
        kinds: Types of a client's events.
        fields: Names of fields.
        frames: Valid frames.
        last: A frame whose answer shows that the socket still serves.
    """

    kinds: tuple[str, ...]
    fields: tuple[str, ...]
    frames: list[dict]
    last: dict

    def answers_last(self, event):
        """Whether an event is the end of the answer to ``last``."""
        raise NotImplementedError

    def check(self, event):
        """Hold an event against its protocol."""
        check_event(event)


class ResponsesSeeds(SocketSeeds):
    def answers_last(self, event):
        response = event.get("response", {})
        return response.get("metadata") == {"mark": "here"} and response["usage"]


class RealtimeSeeds(SocketSeeds):
    def answers_last(self, event):
        return event.get("error", {}).get("event_id") == "the last"


CREATE = {"type": "response.create", "input": "hi"}
ITEM_PART = {"type": "input_text", "text": "hi"}
ITEM = {"type": "message", "role": "user", "content": [ITEM_PART]}
RESPONSES = ResponsesSeeds(
    kinds=extensions.KINDS,
    fields=(
        *response_fields.CreateFrame.__struct_fields__,
        *(f for kind in extensions.FRAMES.values() for f in kind.__struct_fields__),
        *extensions.AuthenticateFrame.__struct_fields__,
    ),
    frames=[
        CREATE,
        {**CREATE, "input": [ITEM], "stream_id": "a", "instructions": "Be brief."},
        {**CREATE, "stream_id": "b", "top_logprobs": 1, "metadata": {"a": "b"}},
        {**CREATE, "stream_id": "c", "credit": 2, "legato": 1},
        {**CREATE, "generate": False, "store": False},
        {**CREATE, "input": [CALLED, GAVE], "tools": [NOW], "tool_choice": NAMED},
        {**CREATE, "resumable": True, "previous_response_id": "resp_1"},
        {"type": "response.cancel"},
        {"type": "response.cancel", "stream_id": "a"},
        {"type": "response.stop", "stream_id": "a"},
        {"type": "response.credit", "stream_id": "c", "tokens": 3},
        {"type": "response.update", "max_output_tokens": 5, "priority": 1},
        {"type": "response.resume", "response_id": "resp_1", "starting_after": 3},
        {"type": "session.authenticate", "api_key": "k"},
        {"type": "response.cancel", "response_id": "resp_1"},
    ],
    last={**CREATE, "stream_id": "the last", "metadata": {"mark": "here"}},
)
SESSION = {"type": "realtime", "instructions": "Be brief.", "max_output_tokens": "inf"}
OUT_OF_BAND = {"conversation": "none", "input": [ITEM], "metadata": {"a": "b"}}
REALTIME = RealtimeSeeds(
    kinds=realtime.KINDS,
    fields=(*SessionFields.__struct_fields__, *ResponseFields.__struct_fields__),
    frames=[
        {"type": "session.update", "session": SESSION, "event_id": "e"},
        {"type": "conversation.item.create", "item": ITEM, "previous_item_id": "root"},
        {"type": "conversation.item.create", "item": {**ITEM, "id": "item_a"}},
        {"type": "conversation.item.retrieve", "item_id": "item_a"},
        {"type": "conversation.item.delete", "item_id": "item_a"},
        {"type": "response.create"},
        {"type": "response.create", "response": OUT_OF_BAND},
        {"type": "response.cancel"},
        {"type": "response.cancel", "response_id": "resp_1"},
    ],
    last={"type": "nothing at all", "event_id": "the last"},
)


class UiChatSeeds(SocketSeeds):
    def answers_last(self, event):
        return event["type"] == "error" and event["requestId"] == "the last"

    def check(self, event):
        assert event["type"] in ("start", "chunk", "end", "error", "no-active")
        assert isinstance(event["requestId"], str)
        if event["type"] == "error":
            assert "log says why" not in event["errorText"]


SEND = {
    "type": "send",
    "requestId": "r",
    "id": "chat",
    "trigger": "submit-message",
    "messages": [UI_MESSAGE],
    "headers": {},
    "body": {"max_output_tokens": 3},
}
UI = UiChatSeeds(
    kinds=("send", "resume", "abort"),
    fields=ai_sdk.SendFrame.__struct_fields__,
    frames=[
        SEND,
        {"type": "resume", "requestId": "s", "id": "chat", "lastSequence": 1},
        {"type": "abort", "requestId": "r"},
    ],
    last={"type": "nothing at all", "requestId": "the last"},
)
# Served by the same code as another path.
ALIASES = {"/api/chat"}
SOCKETS = {
    "/v1/responses": RESPONSES,
    "/v1/realtime": REALTIME,
    "/v1/chat": UI,
    "/api/chat": UI,
}
