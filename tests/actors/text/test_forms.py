"""Answers with calls, as grammars that a matcher walks through."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from legato.actors.text import AnswerForms, Vocabulary
from legato.actors.text.speller import Speller
from legato.gpu.fake import fake_text
from legato.gpu.grammar import Grammars
from legato.protocol.errors import InvalidRequest
from legato.protocol.grammar import Grammar
from legato.protocol.models import TextSource
from legato.protocol.requests import ChatMessage, Conversation
from legato.protocol.sampling import SamplingParams
from legato.protocol.tools import Tool, ToolUse

MARKS = {257: "[TOOL_CALLS]", 258: "[ARGS]", 259: "<|python_tag|>"}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ADD = Tool("add", "Add one.", NUMBER | {"additionalProperties": False})
NOW = Tool("now", "Tell the time.")
TEMPLATES = {
    "hermes": "{{ tools }}<tool_call>",
    "llama": '{{ tools }}"parameters"',
    "mistral": "{{ tools }}[TOOL_CALLS]",
    "named": "{{ tools }}[TOOL_CALLS][ARGS]",
}
ONE = {
    "hermes": '<tool_call>\n{"name": "add", "arguments": {"n":1}}\n</tool_call>',
    "llama": '{"name": "add", "parameters": {"n":1}}',
    "mistral": '[TOOL_CALLS][{"name": "add", "arguments": {"n":1}}]',
    "named": '[TOOL_CALLS]add[ARGS]{"n":1}',
}
TWO = {
    "hermes": ONE["hermes"]
    + '\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
    "llama": ONE["llama"] + '; {"name": "now", "parameters": {}}',
    "mistral": ONE["mistral"][:-1] + ', {"name": "now", "arguments": {}}]',
    "named": ONE["named"] + "[TOOL_CALLS]now[ARGS]{}",
}


def source_of(template: str) -> TextSource:
    source = fake_text()
    vocabulary = source.vocabulary
    wider = msgspec.structs.replace(
        vocabulary,
        tokens=(*vocabulary.tokens, *MARKS.values()),
        types=(*vocabulary.types, 3, 3, 3),
    )
    return msgspec.structs.replace(source, vocabulary=wider, chat_template=template)


class Desk:
    """The forms of a model, and whether an answer keeps to one."""

    def __init__(self, kind: str) -> None:
        self.source = source_of(TEMPLATES[kind])
        self.forms = AnswerForms(Vocabulary.load(self.source.vocabulary), self.source)
        self.grammars = Grammars(Speller(lambda: self.source))

    def grammar(self, params: SamplingParams | None = None, **use: Any):
        use = {"tools": (ADD, NOW)} | use
        prompt = Conversation((ChatMessage("user", "hi"),), ToolUse(**use))
        return self.forms.choose(prompt, params or SamplingParams())

    def takes(self, grammar: Grammar, text: str) -> bool:
        """Whether a text is a whole answer."""
        ids: list[int] = []
        marks: Mapping[str, int] = {name: token for token, name in MARKS.items()}
        while text:
            mark = next((m for m in marks if text.startswith(m)), "")
            if mark:
                ids.append(marks[mark])
                text = text[len(mark) :]
            else:
                ids += text[0].encode()
                text = text[1:]
        matcher = self.grammars.matcher(grammar, ids)
        ends = int.from_bytes(matcher.mask(), "little") >> 256 & 1
        return not matcher.fault and bool(ends)


@pytest.fixture(scope="module", params=list(TEMPLATES))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def desk(kind: str) -> Desk:
    return Desk(kind)


def test_calls_that_are_required_are_the_whole_answer(desk: Desk, kind: str):
    grammar = desk.grammar(choice="required")
    assert desk.takes(grammar, ONE[kind])
    assert desk.takes(grammar, TWO[kind])
    assert not desk.takes(grammar, "Just words.")
    assert not desk.takes(grammar, ONE[kind].replace(":1", ':"one"'))
    assert not desk.takes(grammar, ONE[kind].replace("add", "sub"))
    assert not desk.takes(grammar, "")


def test_a_named_function_is_the_only_one(desk: Desk, kind: str):
    grammar = desk.grammar(choice="required", name="add")
    assert desk.takes(grammar, ONE[kind])
    assert not desk.takes(grammar, TWO[kind])


def test_without_parallel_calls_there_is_one(desk: Desk, kind: str):
    for choice in ("auto", "required"):
        grammar = desk.grammar(choice=choice, parallel=False)
        assert desk.takes(grammar, ONE[kind])
        assert not desk.takes(grammar, TWO[kind])


def test_an_answer_may_be_text_or_calls_where_the_choice_is_free(desk: Desk, kind: str):
    strict = msgspec.structs.replace(ADD, strict=True)
    grammar = desk.grammar(tools=(strict, NOW))
    assert desk.takes(grammar, "Just words.")
    assert desk.takes(grammar, "")
    assert desk.takes(grammar, ONE[kind])
    assert desk.takes(grammar, TWO[kind])
    assert not desk.takes(grammar, ONE[kind].replace(":1", ':"one"'))
    if kind != "llama":
        assert desk.takes(grammar, "Let me see. " + ONE[kind])


def test_an_answer_may_be_of_its_own_form_or_calls(desk: Desk, kind: str):
    schema = {"type": "object", "properties": {"m": {}}, "required": ["m"]}
    params = SamplingParams(grammar=Grammar.json_schema(schema))
    if kind == "llama":
        with pytest.raises(InvalidRequest, match="require a call"):
            desk.grammar(params)
    else:
        grammar = desk.grammar(params)
        assert desk.takes(grammar, '{"m": 1}')
        assert desk.takes(grammar, ONE[kind])
        assert not desk.takes(grammar, "Just words.")
    only = desk.grammar(params, choice="required")
    assert not desk.takes(only, '{"m": 1}')


def test_nothing_binds_an_answer_that_nobody_bound(desk: Desk):
    assert desk.grammar() is None


def test_parameters_may_refer_to_their_own_definitions(desk: Desk, kind: str):
    parameters = {
        "type": "object",
        "properties": {"n": {"$ref": "#/$defs/count"}},
        "required": ["n"],
        "$defs": {"count": {"type": "integer"}},
    }
    grammar = desk.grammar(tools=(Tool("add", "", parameters),), choice="required")
    assert desk.takes(grammar, ONE[kind])


def test_parameters_that_cannot_be_compiled_are_refused_by_name(desk: Desk):
    bad = Tool("bad", "", {"type": "objec"})
    with pytest.raises(InvalidRequest, match="'bad': cannot be compiled") as caught:
        desk.grammar(tools=(ADD, bad), choice="required")
    assert caught.value.field == "tools"
    assert desk.grammar(tools=(ADD, bad)) is None


def test_what_goes_with_no_calls_is_refused(desk: Desk):
    regex = SamplingParams(grammar=Grammar.regex("a"))
    with pytest.raises(InvalidRequest, match="cannot be combined"):
        desk.grammar(regex)
    with pytest.raises(InvalidRequest) as caught:
        desk.grammar(SamplingParams(ignore_eos=True), choice="required")
    assert caught.value.field == "ignore_eos"


def test_a_model_without_an_end_cannot_keep_a_form():
    source = msgspec.structs.replace(fake_text(), stop_ids=())
    forms = AnswerForms(Vocabulary.load(source.vocabulary), source)
    with pytest.raises(InvalidRequest, match="no end token"):
        forms.choose("hi", SamplingParams(grammar=Grammar.regex("a")))
