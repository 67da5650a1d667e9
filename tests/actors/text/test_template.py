import json
from pathlib import Path

import pytest

from legato.actors.text.template import ChatTemplate
from legato.protocol.errors import InvalidModel, InvalidRequest
from legato.protocol.models import TextSource, VocabularySource
from legato.protocol.requests import ChatMessage
from legato.protocol.tools import Tool, ToolCall

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "smollm2.json").read_text(encoding="utf-8")
)
FIND = Tool("find", "Look.", {"type": "object"})
TURNS = "{% for m in messages %}[{{ m.role }}]{{ m['content'] }}{% endfor %}"
HI = (ChatMessage("user", "hi"),)


def template(text: str | None) -> ChatTemplate:
    vocabulary = VocabularySource(kind="bpe")
    return ChatTemplate(
        TextSource(
            vocabulary=vocabulary, chat_template=text, bos_token="<s>", eos_token="</s>"
        )
    )


@pytest.mark.model
@pytest.mark.parametrize("case", GOLDEN["chat_cases"], ids=lambda it: it["name"])
def test_conversations_render_to_the_reference_text(embedded: TextSource, case: dict):
    messages = [ChatMessage(**message) for message in case["messages"]]
    assert ChatTemplate(embedded).render(messages) == case["prompt_text"]


def test_the_template_sees_its_tokens_tools_and_whether_to_go_on():
    text = "{{ bos_token }}{{ tools }}{{ add_generation_prompt }}{{ eos_token }}"
    assert template(text).render(HI) == "<s>NoneTrue</s>"
    rendered = template(text).render(HI, add_generation_prompt=False, tools=[FIND])
    function = {
        "name": "find",
        "description": "Look.",
        "parameters": {"type": "object"},
    }
    told = {"type": "function", "function": function}
    assert rendered == f"<s>{[told]}False</s>"


@pytest.mark.parametrize(
    ("text", "rendered"),
    [(TURNS, "[system]hi"), (TURNS + "{# developer #}", "[developer]hi")],
)
def test_a_developer_is_a_system_where_the_template_knows_none(
    text: str, rendered: str
):
    assert template(text).render([ChatMessage("developer", "hi")]) == rendered


def test_no_messages_are_refused():
    with pytest.raises(InvalidRequest, match="at least one message") as caught:
        template(TURNS).render([])
    assert caught.value.field == "messages"


def test_an_unknown_role_is_refused_with_those_known():
    messages = [*HI, ChatMessage("pirate", "arr")]
    with pytest.raises(InvalidRequest, match="'pirate'; known are system, ") as caught:
        template(TURNS).render(messages)
    assert caught.value.field == "messages[1].role"


def test_what_the_template_refuses_is_passed_on():
    with pytest.raises(InvalidRequest, match="refuses this: roles must alternate"):
        template("{{ raise_exception('roles must alternate') }}").render(HI)


@pytest.mark.parametrize(
    "text",
    [
        "{{ messages[5].content }}",
        "{{ 1 / 0 }}",
        "{{ messages.content.x }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
    ],
)
def test_whatever_else_breaks_fails_the_request(text: str):
    with pytest.raises(InvalidRequest, match="fails on these messages") as caught:
        template(text).render(HI)
    assert caught.value.field == "messages"


def test_output_is_bounded_by_what_went_in():
    text = "{% for i in range(99999) %}{{ 'a line of text' }}{% endfor %}"
    with pytest.raises(InvalidRequest, match="more than 1000016 characters"):
        template(text).render(HI)


@pytest.mark.parametrize(
    "text", ["{% for %}", "{{ x|no_such_filter }}", "{% endif %}", "{{ 'open"]
)
def test_a_broken_template_is_a_broken_model(text: str):
    with pytest.raises(InvalidModel, match="template is broken: line 1"):
        template(text)


def test_a_template_that_nests_too_deeply_is_a_broken_model():
    with pytest.raises(InvalidModel, match="template"):
        template("{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}")


def test_a_model_without_a_template_has_none():
    with pytest.raises(InvalidModel, match="no chat template"):
        template(None)


@pytest.mark.parametrize("depth", [600, 900])
def test_arguments_that_nest_too_deeply_are_refused(depth: int):
    arguments = '{"a":' * depth + "1" + "}" * depth
    call = ChatMessage("assistant", "", (ToolCall("1", "f", arguments),))
    text = "<tool_call>{{ tools }}{{ messages[0].tool_calls | tojson }}"
    with pytest.raises(InvalidRequest, match="nest too deeply"):
        template(text).render([call])
