import msgspec
import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.grammar import MAX_CHARACTERS, Grammar
from legato.protocol.sampling import SamplingParams


def test_a_schema_may_be_a_mapping_or_json():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    text = msgspec.json.encode(schema).decode()
    assert Grammar.json_schema(schema) == Grammar.json_schema(text)
    assert Grammar.json_schema(schema).text == text


def test_a_schema_that_is_not_json_is_refused():
    with pytest.raises(InvalidRequest, match="not JSON"):
        Grammar.json_schema({"default": object()})


def test_a_grammar_needs_its_text_and_has_a_largest_size():
    assert Grammar.json_object().text == ""
    with pytest.raises(InvalidRequest, match="regex needs a text"):
        Grammar.regex("")
    with pytest.raises(InvalidRequest, match="at most 131072"):
        Grammar.lark("x" * (MAX_CHARACTERS + 1))


def test_equal_grammars_are_one_key():
    assert len({Grammar.regex("a"), Grammar.regex("a"), Grammar.regex("b")}) == 2


def test_sampling_takes_a_grammar_and_nothing_else():
    assert SamplingParams(grammar=Grammar.regex("a")).grammar == Grammar.regex("a")
    loose = SamplingParams.of({"grammar": {"kind": "regex", "text": "a"}})
    assert loose.grammar == Grammar.regex("a")
    with pytest.raises(InvalidRequest, match="must be a Grammar"):
        SamplingParams(grammar="a")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [{"min_tokens": 3}, {"ignore_eos": True}])
def test_what_would_break_the_form_is_refused(option: dict[str, object]):
    with pytest.raises(InvalidRequest, match="cannot be combined") as caught:
        SamplingParams.of({"grammar": Grammar.regex("a"), **option})
    assert caught.value.field == next(iter(option))
