"""Chats of the AI SDK."""

import msgspec
import pytest

from legato.protocol.ai_sdk import UiMessage, ui_turns
from legato.protocol.errors import InvalidRequest


def test_more_messages_than_anybody_needs_are_refused():
    said = {"id": "a", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    message = msgspec.convert(said, UiMessage)
    assert [turn.content for turn in ui_turns([message])] == ["hi"]
    with pytest.raises(InvalidRequest, match="at most 10000 entries"):
        ui_turns([message] * 10_001)


def test_too_many_parts_in_all_are_refused():
    said = {"id": "a", "role": "user", "parts": [{"type": "step-start"}] * 10_000}
    message = msgspec.convert(said, UiMessage)
    with pytest.raises(InvalidRequest, match=r"20000 parts .* got 30000"):
        ui_turns([message] * 3)
