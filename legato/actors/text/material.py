"""What every kind of vocabulary is made of once it is loaded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Tokenizer

from ...protocol.errors import InvalidModel
from ...protocol.models import VocabularySource

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True, slots=True)
class Material:
    """A tokenizer, twice, and the bytes of its tokens.

    Args:
        plain: Reads control tokens in a text as text.
        marked: Reads control tokens in a text as themselves. Both share one model.
        table: Each id's bytes; b"" for control tokens and for ids nobody uses.
        hidden: The names of control tokens, by id.
    """

    plain: Tokenizer
    marked: Tokenizer
    table: tuple[bytes, ...]
    hidden: dict[int, str]


def token_types(source: VocabularySource) -> Sequence[int]:
    """Return each id's type; a file that tells none has normal tokens only.

    Raises:
        InvalidModel: There are no tokens, or not as many types.
    """
    if not source.tokens:
        raise InvalidModel("the model's vocabulary is empty; convert the model again")
    types = source.types or (NORMAL,) * len(source.tokens)
    if len(types) != len(source.tokens):
        raise InvalidModel(
            f"the vocabulary has {len(source.tokens)} tokens but {len(types)} types; "
            "convert the model again"
        )
    return types


def first_ids(tokens: Iterable[str]) -> dict[str, int]:
    """Map each text to its id, the first one if several tokens look alike."""
    ids: dict[str, int] = {}
    for token, text in enumerate(tokens):
        ids.setdefault(text, token)
    return ids


def add_atoms(tokenizer: Tokenizer, source: VocabularySource) -> None:
    """Make the tokens that are no product of merges stand out in a text."""
    types = token_types(source)
    for kinds, special in (((UNKNOWN, CONTROL), True), ((USER_DEFINED,), False)):
        atoms = [
            AddedToken(text, special=special, normalized=False)
            for text, kind in zip(source.tokens, types, strict=True)
            if kind in kinds and text
        ]
        # The library's stub leaves out what the list holds.
        tokenizer.add_tokens(atoms)  # pyright: ignore[reportUnknownMemberType]


def hidden_names(source: VocabularySource) -> dict[int, str]:
    """Name the tokens that are never text."""
    return {
        token: source.tokens[token]
        for token, kind in enumerate(token_types(source))
        if kind in (UNKNOWN, CONTROL)
    }
