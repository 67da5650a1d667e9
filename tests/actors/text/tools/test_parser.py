import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.tools import ToolParser
from legato.actors.text.tools.format import (
    HERMES,
    LLAMA,
    MISTRAL,
    MISTRAL_NAMED,
    ToolFormat,
)
from legato.protocol.tools import AnswerPiece, CallBegun, CallEnded, CallPiece

FORMS = [HERMES, LLAMA, MISTRAL, MISTRAL_NAMED]


def written(form: ToolFormat, calls: list[tuple[str, str]]) -> str:
    """Calls as a model of a format writes them."""
    if form.named:
        parts = [f"{form.opener}{name}{form.named}{text}" for name, text in calls]
        return "".join(parts)
    bodies = [
        f'{{"name": {json.dumps(name)}, "{form.arguments}": {text}}}'
        for name, text in calls
    ]
    if form.listed:
        return f"{form.opener}[{', '.join(bodies)}]"
    if form.bare:
        return "; ".join(bodies)
    return "\n".join(f"{form.opener}\n{body}\n{form.closer}" for body in bodies)


def read(form: ToolFormat, *texts: str) -> tuple[str, list[tuple[str, str]]]:
    parser = ToolParser(form)
    pieces: list[AnswerPiece] = []
    for text in texts:
        pieces += parser.feed(text)
    pieces += parser.finish()
    said, calls, ended = "", list[tuple[str, str]](), list[int]()
    for piece in pieces:
        if isinstance(piece, str):
            said += piece
        elif isinstance(piece, CallBegun):
            assert piece.index == len(calls)
            calls.append((piece.name, ""))
        elif isinstance(piece, CallPiece):
            assert piece.index not in ended
            name, so_far = calls[piece.index]
            calls[piece.index] = (name, so_far + piece.text)
        else:
            ended.append(piece.index)
    assert parser.num_calls == len(calls)
    assert ended == sorted(set(ended))
    return said, calls


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(st.text(max_size=5), values, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)
names = st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True)
calls = st.lists(st.tuples(names, arguments), min_size=1, max_size=3)


@pytest.mark.parametrize("form", FORMS, ids=["hermes", "llama", "mistral", "named"])
@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(calls=calls, cuts=st.lists(st.integers(0, 200), max_size=12), one=st.booleans())
def test_calls_read_the_same_however_they_are_cut(
    form: ToolFormat, calls: list[tuple[str, str]], cuts: list[int], one: bool
):
    text = written(form, calls)
    places = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    parts = [text[a:b] for a, b in pairwise(places)]
    assert read(form, *(text if one else parts)) == ("", calls)
    assert read(form, text) == ("", calls)


@pytest.mark.parametrize("form", [HERMES, MISTRAL, MISTRAL_NAMED])
def test_text_before_calls_is_text(form: ToolFormat):
    text = "Let me see.\n" + written(form, [("find", '{"a": 1}')])
    assert read(form, *text) == ("Let me see.\n", [("find", '{"a": 1}')])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "Plain words.",
        "  with space around  ",
        "1 < 2, [a] and {b}",
        '{"title": "an object that calls nothing", "n": [1, 2]}',
        '{"name": 7, "arguments": {}}',
        "{broken",
        "<tool_",
        "",
    ],
)
def test_text_that_holds_no_call_stays_as_it_is(form: ToolFormat, text: str):
    assert read(form, text) == (text, [])
    assert read(form, *text) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\nno object\n</tool_call>",
        "<tool_call></tool_call>",
        '<tool_call>\n{"arguments": {"a": 1}}\n</tool_call> and more',
        '<tool_call>\n{"na',
        "so <tool_call>",
    ],
)
def test_what_only_looks_like_a_call_is_text(text: str):
    assert read(HERMES, text) == (text, [])
    assert read(HERMES, *text) == (text, [])


def test_arguments_are_let_go_as_they_come():
    parser = ToolParser(HERMES)
    assert parser.feed('<tool_call>\n{"name": "f", "argu') == [CallBegun(0, "f")]
    assert parser.feed('ments": {"a"') == [CallPiece(0, '{"a"')]
    assert parser.feed(': "x}y') == [CallPiece(0, ': "x}y')]
    assert parser.feed('"}}') == [CallPiece(0, '"}'), CallEnded(0)]
    assert parser.feed("\n</tool_call>") == []
    assert parser.finish() == []


def test_arguments_before_the_name_wait_for_it():
    text = '{"arguments": {"a": 1}, "name": "f"}'
    parser = ToolParser(LLAMA)
    assert parser.feed(text[:-2]) == []
    assert parser.feed(text[-2:]) == [
        CallBegun(0, "f"),
        CallPiece(0, '{"a": 1}'),
        CallEnded(0),
    ]


def test_a_call_without_arguments_has_an_empty_object_of_them():
    assert read(LLAMA, '{"name": "f"}') == ("", [("f", "{}")])


def test_a_call_that_is_cut_has_begun_and_not_ended():
    parser = ToolParser(HERMES)
    pieces = parser.feed('<tool_call>\n{"name": "f", "arguments": {"a"')
    assert pieces + parser.finish() == [CallBegun(0, "f"), CallPiece(0, '{"a"')]


def test_an_object_written_as_text_is_unpacked():
    text = '{"name": "f", "arguments": "{\\"a\\": \\"b\\"}", "id": 3}'
    assert read(LLAMA, *text) == ("", [("f", '{"a": "b"}')])


def test_a_call_cut_by_length_keeps_what_it_had():
    text = '<tool_call>\n{"name": "f", "arguments": {"a": "unfin'
    assert read(HERMES, *text) == ("", [("f", '{"a": "unfin')])


def test_a_list_between_tags_is_several_calls():
    text = '<tool_call>[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]'
    assert read(HERMES, text + "</tool_call>") == ("", [("f", "{}"), ("g", "{}")])


def test_llamas_own_opener_may_stand_before_a_call():
    text = '<|python_tag|>{"name": "f", "parameters": {"q": "x"}}'
    assert read(LLAMA, *text) == ("", [("f", '{"q": "x"}')])


def test_text_after_calls_is_text_and_space_around_them_is_not():
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    text = f"\n\n{call}\n\n{call}\n done."
    assert read(HERMES, *text) == ("\n done.", [("f", "{}"), ("f", "{}")])


@pytest.mark.parametrize("form", [HERMES, LLAMA, MISTRAL])
def test_half_a_character_that_an_escape_names_is_told_as_unreadable(form: ToolFormat):
    _, calls = read(form, written(form, [("f\ud800", '"{\\"a\\": \\ud800}"')]))
    assert calls == [("f\ufffd", '{"a": \ufffd}')]
