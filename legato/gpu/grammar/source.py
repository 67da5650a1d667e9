"""Grammars in the library's own words."""

import json
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import InvalidRequest
from ...protocol.grammar import Grammar

# JSON may be spaced as models like to, but not without end: a weak model that is free
# to add white space for ever does so.
SPACE = r"[ \n\t]{0,16}"
MAX_WORDS = 300


def source_of(grammar: Grammar) -> str:
    """Write a grammar in the library's words, unchecked.

    Raises:
        InvalidRequest: It is not JSON where it should be.
    """
    # Loading the library takes 0.03 to 0.2 s, which only those pay who use it.
    from llguidance import LLMatcher

    if grammar.kind == "regex":
        return LLMatcher.grammar_from_regex(grammar.text)
    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.text)
    schema = '{"type": "object"}' if grammar.kind == "json_object" else grammar.text
    try:
        return LLMatcher.grammar_from_json_schema(
            schema, overrides={"whitespace_pattern": SPACE}
        )
    except ValueError as error:
        raise refused(str(error)) from error


def check_grammar(grammar: Grammar) -> None:
    """Find out whether a grammar can be compiled, without a vocabulary.

    Takes a millisecond, or up to a second for the largest; holds no interpreter lock.

    Raises:
        InvalidRequest: It cannot; says why.
    """
    from llguidance import LLMatcher

    text = source_of(grammar)
    failed, messages = LLMatcher.validate_grammar_with_warnings(text)
    if failed:
        raise refused(messages[0])


def refused(message: str) -> InvalidRequest:
    """Say what the library says, without the grammar it repeats."""
    line = " ".join(message.split())
    if len(line) > MAX_WORDS:
        line = line[:MAX_WORDS] + "…"
    return InvalidRequest(f"cannot be compiled: {line}", field="grammar")


def embedded(schema: Mapping[str, Any] | bool) -> str:
    """Write a JSON schema as a part of a Lark grammar, spaced as others are.

    A schema that is not an object allows or forbids everything, and needs no spacing.
    """
    spaced: object = schema
    if not isinstance(schema, bool):
        spaced = {**schema, "x-guidance": {"whitespace_pattern": SPACE}}
    return f"%json {json.dumps(spaced)}"
