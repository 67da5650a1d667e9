import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.realtime_conversation import (
    MAX_CHARACTERS,
    Conversation,
)
from legato.protocol.openai.realtime_items import Item, read_item
from legato.protocol.openai.refusal import Refusal


def item(name, text="x", status="completed"):
    return Item(id=name, role="user", texts=(text,), status=status)


@pytest.fixture
def conversation():
    return Conversation("conv_1")


def test_items_stand_where_they_were_put(conversation):
    assert conversation.insert(item("b", "b")) is None
    assert conversation.insert(item("d", "d")) == "b"
    assert conversation.insert(item("c", "c"), "b") == "b"
    assert conversation.insert(item("a", "a"), "root") is None
    assert "".join(turn.content for turn in conversation.turns("")) == "abcd"


def test_instructions_come_first(conversation):
    conversation.insert(item("a"))
    assert [turn.role for turn in conversation.turns("be brief")] == ["system", "user"]


def test_an_item_in_progress_is_not_read_and_not_deleted(conversation):
    conversation.insert(item("a"))
    conversation.insert(item("b", "", "in_progress"))
    assert len(conversation.turns("")) == 1
    with pytest.raises(Refusal, match="still being written"):
        conversation.delete("b")
    conversation.settle(item("b"))
    assert len(conversation.turns("")) == 2
    conversation.delete("b")


def test_room_for_text_is_bounded_and_given_back(conversation):
    conversation.insert(item("a", "x" * MAX_CHARACTERS))
    with pytest.raises(Refusal, match="delete some"):
        conversation.insert(item("b"))
    conversation.delete("a")
    conversation.insert(item("b"))


def test_an_item_before_one_that_is_gone_is_refused(conversation):
    conversation.insert(item("a"))
    conversation.delete("a")
    with pytest.raises(InvalidRequest, match="no item 'a'"):
        conversation.insert(item("b"), "a")


def test_too_many_parts_of_an_item_are_refused_before_they_are_read():
    fields = {"type": "message", "role": "user", "content": ["unheard of"] * 20_001}
    with pytest.raises(InvalidRequest, match="at most 20000 parts") as refused:
        read_item(fields, "item")
    assert refused.value.field == "item.content"
