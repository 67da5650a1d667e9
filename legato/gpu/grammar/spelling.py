"""How tokens are spelled: all that a grammar must know of a vocabulary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spelling:
    """The bytes of every token.

    Args:
        tokens: Each id's bytes; b"" for control tokens and for ids nobody uses.
        controls: The names of control tokens, by id: no text, but grammars can ask for
            them.
        ends: Tokens that may end an answer where its form is complete, at least one.
        encode: The model's own way to spell a text, as far as it has one.
    """

    tokens: Sequence[bytes]
    controls: Mapping[int, str]
    ends: tuple[int, ...]
    encode: Callable[[str], Sequence[int]]
