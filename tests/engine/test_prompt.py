import pytest

from legato.engine.prompt import as_prompt
from legato.protocol.errors import InvalidRequest, UnknownOption
from legato.protocol.requests import ChatMessage

HI = ChatMessage("user", "hi")


def test_text_ids_and_conversations_are_told_apart():
    assert as_prompt("text", 100) == "text"
    assert as_prompt([1, 2], 100) == (1, 2)
    assert as_prompt([HI, {"role": "user", "content": "hi"}], 100) == (HI, HI)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "prompt: must not be empty"),
        (7, "prompt: must be text, a sequence of token ids"),
        (b"bytes", "prompt: must be text"),
        ([True], r"messages\[0\]: must be a message with role and content, got bool"),
        ([HI, "hi"], r"messages\[1\]: must be a message"),
        ([{"role": "user"}], r"messages\[0\]: .*missing required field `content`"),
        ([{"role": "user", "content": None}], r"messages\[0\]: Expected `str`"),
        ("x" * 101, "101 characters, more than max_prompt_chars"),
        ([1] * 101, "101 characters"),
        ([ChatMessage("user", "x" * 101)], "101 characters"),
    ],
)
def test_bad_prompts_say_what_to_change(prompt: object, message: str):
    with pytest.raises(InvalidRequest, match=message):
        as_prompt(prompt, 100)  # pyright: ignore[reportArgumentType]


def test_an_unknown_field_of_a_message_is_named_with_the_nearest():
    with pytest.raises(UnknownOption, match="'contents'; did you mean 'content'"):
        as_prompt([{"role": "user", "contents": "hi"}], 100)
