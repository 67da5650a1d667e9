"""Functions in the Responses API's form."""

import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.response_tools import read_response_tools, tools_object
from legato.protocol.tools import MAX_TOOLS, Tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
ADD = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": SCHEMA,
    "strict": False,
}
NOW = {"type": "function", "name": "now"}


def test_a_function_stands_flat_and_is_strict_unless_it_says_otherwise():
    use = read_response_tools([ADD, NOW], None, None)
    assert use.tools == (
        Tool("add", "Adds.", SCHEMA, strict=False),
        Tool("now", strict=True),
    )
    assert (use.choice, use.name, use.parallel) == ("auto", "", True)
    nulls = {**NOW, "parameters": None, "strict": None, "description": None}
    assert read_response_tools([nulls], "auto", None).tools == (
        Tool("now", strict=True),
    )


@pytest.mark.parametrize("tools", [None, []])
def test_without_functions_there_is_nothing_to_choose(tools):
    for choice in (None, "auto", "none"):
        assert read_response_tools(tools, choice, True) is None
    for choice in ("required", {"type": "function", "name": "now"}):
        with pytest.raises(InvalidRequest) as caught:
            read_response_tools(tools, choice, None)
        assert caught.value.field == "tool_choice"


def test_the_choice_is_among_the_functions():
    assert read_response_tools([NOW], "none", None) is None
    assert read_response_tools([NOW], "required", False).binds
    use = read_response_tools([ADD, NOW], {"type": "function", "name": "now"}, None)
    assert [tool.name for tool in use.callable] == ["now"]
    for choice in ("now", {"type": "function", "name": "never"}):
        with pytest.raises(InvalidRequest) as caught:
            read_response_tools([NOW], choice, None)
        assert caught.value.field == "tool_choice"


@pytest.mark.parametrize(
    ("tools", "choice", "field", "word"),
    [
        ([{"type": "web_search"}], None, "tools[0].type", "web_search"),
        (
            [NOW, {"type": "file_search", "vector_store_ids": []}],
            None,
            "tools[1].type",
            "file_search",
        ),
        ([{"name": "now"}], None, "tools[0].type", "required"),
        ([{"type": "function"}], None, "tools[0].name", "required"),
        ([{"type": "function", "name": "a b"}], None, "tools[0].name", "letters"),
        (
            [{"type": "function", "function": {"name": "now"}}],
            None,
            "tools[0].function",
            "name, description, parameters, strict",
        ),
        ([{**NOW, "async": True}], None, "tools[0].async", "True"),
        ([{**NOW, "output_schema": {"a": 1}}], None, "tools[0].output_schema", "not"),
        ([{**NOW, "descripton": ""}], None, "tools[0].descripton", "description"),
        ([NOW], {"type": "allowed_tools"}, "tool_choice.type", "allowed_tools"),
        ([NOW], {"type": "web_search"}, "tool_choice.type", "web_search"),
        ([NOW], {"type": "function"}, "tool_choice.name", "required"),
        (
            [NOW],
            {"type": "function", "function": {"name": "now"}},
            "tool_choice.function",
            "name",
        ),
        ([NOW, NOW], None, "tools", "now"),
        (
            [{"type": "function", "name": f"f{n}"} for n in range(MAX_TOOLS + 1)],
            None,
            "tools",
            str(MAX_TOOLS),
        ),
    ],
)
def test_what_is_no_function_is_refused_by_name(tools, choice, field, word):
    with pytest.raises(InvalidRequest) as caught:
        read_response_tools(tools, choice, None)
    assert caught.value.field == field
    assert word in str(caught.value)


def test_a_response_repeats_its_functions():
    assert tools_object([NOW]) == [
        {**NOW, "description": None, "parameters": None, "strict": True}
    ]
    assert tools_object([ADD]) == [ADD]
    assert tools_object(None) == []


def test_too_many_functions_are_refused_before_they_are_read():
    with pytest.raises(InvalidRequest, match=f"1 to {MAX_TOOLS} functions"):
        read_response_tools([{"type": "unheard of"}] * (MAX_TOOLS + 1), None, None)
