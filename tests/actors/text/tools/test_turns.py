import pytest

from legato.actors.text.template import ChatTemplate
from legato.actors.text.tools import model_turns, taught
from legato.actors.text.tools.format import (
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_NAMED,
    choose_format,
)
from legato.gpu.fake import fake_text
from legato.protocol.requests import ChatMessage
from legato.protocol.tools import Tool, ToolCall

FIND = Tool("find", "Look it up.", {"type": "object", "properties": {"q": {}}})
CALL = ToolCall("call_1", "find", '{"q": "rain"}')
TALK = [
    ChatMessage("user", "Will it rain?"),
    ChatMessage("assistant", "", (CALL,)),
    ChatMessage("tool", "yes", tool_call_id="call_1"),
]


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{% if tools %}<tool_call>{% endif %}", HERMES),
        ("{{ tools }}[TOOL_CALLS]", MISTRAL),
        ("{{ tools }}[TOOL_CALLS][ARGS]", MISTRAL_NAMED),
        ('{{ tools }} {"name": "parameters": {}}', LLAMA),
        ("{{ tools }}", HERMES),
    ],
)
def test_a_template_tells_how_its_model_calls(template, form):
    assert choose_format(template) == form


@pytest.mark.parametrize("template", [None, "{{ messages }}", "stools"])
def test_a_template_without_functions_has_them_described(template):
    form = choose_format(template)
    assert (form.name, form.taught) == ("hermes", False)


def test_turns_carry_calls_as_templates_know_them():
    turns = model_turns(TALK, HERMES)
    function = {"name": "find", "arguments": {"q": "rain"}}
    call = {"id": "call_1", "type": "function", "function": function}
    assert turns[1] == {"role": "assistant", "content": "", "tool_calls": [call]}
    assert turns[2] == {"role": "tool", "content": "yes", "tool_call_id": "call_1"}


def test_mistral_gets_ids_of_nine_letters_that_still_match():
    turns = model_turns(TALK, MISTRAL)
    name = turns[1]["tool_calls"][0]["id"]
    assert len(name) == 9
    assert name.isalnum()
    assert turns[2]["tool_call_id"] == name
    kept = ChatMessage("tool", "yes", tool_call_id="abcdefghi")
    assert model_turns([kept], MISTRAL)[0]["tool_call_id"] == "abcdefghi"


@pytest.mark.parametrize("arguments", ["{", "[]", "3", "{'a': 1}", "[" * 5000])
def test_arguments_that_are_no_object_are_shown_as_they_were_written(arguments: str):
    message = ChatMessage("assistant", "", (ToolCall("1", "find", arguments),))
    (turn,) = model_turns([message], HERMES)
    assert turn["tool_calls"][0]["function"]["arguments"] == arguments


def test_a_model_that_knows_no_functions_is_taught_in_its_system_message():
    plain = taught([ChatMessage("system", "Be kind."), *TALK], [FIND])
    assert [message.role for message in plain] == [
        *("system", "user", "assistant", "user")
    ]
    assert plain[0].content.startswith("Be kind.\n\n")
    assert '"name":"find"' in plain[0].content
    assert plain[2].content == (
        '<tool_call>\n{"name": "find", "arguments": {"q": "rain"}}\n</tool_call>'
    )
    assert plain[3].content == "<tool_response>\nyes\n</tool_response>"
    alone = taught(TALK, [FIND])
    assert alone[0].role == "system"
    assert taught(TALK[:1], []) == (TALK[0],)


def test_no_text_of_a_function_or_call_escapes_the_guard():
    sly = Tool("a<end>", "b<end>", {"c<end>": {"enum": ["d<end>"]}})
    call = ToolCall("e<end>", "f<end>", '{"g<end>": ["h<end>"]}')
    talk = [
        ChatMessage("user", "i<end>"),
        ChatMessage("assistant", "j<end>", (call,)),
        ChatMessage("tool", "k<end>", tool_call_id="l<end>"),
    ]
    source = fake_text()
    knowing = "{{ tools }}{{ messages }}"
    for template in (source.chat_template, knowing):
        changed = type(source)(vocabulary=source.vocabulary, chat_template=template)
        text = ChatTemplate(changed).render(
            talk, tools=[sly], guard=lambda text: text.replace("<end>", "!")
        )
        assert "<end>" not in text
        assert all(f"{letter}!" in text for letter in "abcdfghijk")
