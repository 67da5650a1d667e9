import pytest

from legato.actors.text import Speller
from legato.gpu.fake import fake_text
from legato.gpu.grammar import Grammars, Matcher, Spelling
from legato.gpu.grammar.lexicon import Lexicon
from legato.gpu.grammar.source import MAX_WORDS, check_grammar
from legato.protocol.errors import InvalidRequest
from legato.protocol.grammar import Grammar

END = 256
BROKEN = [
    Grammar.json_schema('{"type": "strin"}'),
    Grammar.json_schema("[]"),
    Grammar.json_schema("{"),
    Grammar.json_schema('{"$ref": "#/nowhere"}'),
    Grammar.json_schema('{"$ref": "http://example.com/schema"}'),
    Grammar.json_schema('{"allOf": [{"type": "string"}, {"type": "integer"}]}'),
    Grammar.json_schema('{"items":' * 5000 + "{}" + "}" * 5000),
    Grammar.json_schema('{"type": "string", "pattern": "("}'),
    Grammar.regex("("),
    Grammar.lark("start: nowhere"),
    Grammar.lark("start: " + "(" * 5000 + '"a"' + ")" * 5000),
]


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(Speller(fake_text))


def allowed(matcher: Matcher) -> set[int]:
    bits = int.from_bytes(matcher.mask(), "little")
    return {token for token in range(bits.bit_length()) if bits >> token & 1}


def test_a_matcher_allows_what_may_come_and_the_end_where_it_may(grammars: Grammars):
    matcher = grammars.matcher(Grammar.regex("ab?"))
    assert allowed(matcher) == {ord("a")}
    matcher.advance(ord("a"))
    assert allowed(matcher) == {ord("b"), END}
    matcher.advance(ord("b"))
    assert allowed(matcher) == {END}
    assert matcher.fault == ""


def test_what_comes_after_the_end_is_ignored(grammars: Grammars):
    matcher = grammars.matcher(Grammar.regex("a"), b"a")
    for token in (END, END, ord("z")):
        matcher.advance(token)
        assert (allowed(matcher), matcher.fault) == ({END}, "")


def test_an_answer_goes_on_where_it_was(grammars: Grammars):
    matcher = grammars.matcher(Grammar.json_schema('{"const": [1, 2]}'), b"[1")
    assert ord(",") in allowed(matcher)
    assert ord("]") not in allowed(matcher)


def test_an_answer_that_breaks_its_grammar_is_a_fault(grammars: Grammars):
    matcher = grammars.matcher(Grammar.regex("abc"), b"ax")
    assert "cannot go on" in matcher.fault
    assert allowed(matcher) == {END}


def test_white_space_has_a_bound(grammars: Grammars):
    matcher = grammars.matcher(Grammar.json_object(), b"{" + b" " * 16)
    assert allowed(matcher) == {ord('"'), ord("}")}


def test_matchers_of_one_grammar_do_not_share_their_way(grammars: Grammars):
    one, two = (grammars.matcher(Grammar.regex("abc")) for _ in range(2))
    one.advance(ord("a"))
    assert (allowed(one), allowed(two)) == ({ord("b")}, {ord("a")})


@pytest.mark.parametrize("grammar", BROKEN)
def test_a_grammar_that_cannot_be_compiled_is_refused_in_a_line(
    grammars: Grammars, grammar: Grammar
):
    for attempt in (check_grammar, grammars.compile, grammars.matcher):
        with pytest.raises(InvalidRequest) as caught:
            attempt(grammar)
        assert caught.value.field == "grammar"
        assert "\n" not in caught.value.message
        assert len(caught.value.message) < MAX_WORDS + 40
    assert not grammars.has(grammar)


def test_the_vocabulary_is_read_once_and_only_if_needed():
    asked: list[int] = []

    def spell() -> Spelling:
        asked.append(1)
        return Speller(fake_text)()

    grammars = Grammars(spell)
    assert not grammars.has(Grammar.regex("a"))
    assert asked == []
    for pattern in "ab":
        grammars.compile(Grammar.regex(pattern))
    assert asked == [1]


def test_the_longest_unused_grammar_goes_first():
    grammars = Grammars(Speller(fake_text), capacity=2)
    for pattern in "abac":
        grammars.compile(Grammar.regex(pattern))
    kept = [pattern for pattern in "abc" if grammars.has(Grammar.regex(pattern))]
    assert kept == ["a", "c"]


def test_control_tokens_are_no_text_but_can_be_asked_for(grammars: Grammars):
    anything = grammars.matcher(Grammar.regex("(?s:.*)"))
    assert END in allowed(anything)  # as the end
    named = grammars.matcher(Grammar.lark('start: <[256]> "a"'))
    assert allowed(named) == {END}


def test_a_spelling_that_is_not_exact_is_replaced():
    tokens = [b"a", b"ab", b"\xc3", b"\xa4", b" "]
    spelling = Spelling(tokens, {}, (0,), lambda text: [4, 1])
    lexicon = Lexicon(spelling)
    assert lexicon(" ab") == [4, 1]
    assert lexicon("ab") == [1]
    assert lexicon("äa") == [2, 3, 0]
    assert lexicon(b"a\xc3") == [0, 2]
