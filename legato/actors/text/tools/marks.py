"""Tokens around calls, made to be seen: elsewhere control tokens are no text."""

from ..vocabulary import Vocabulary
from .format import HERMES, LLAMA, MISTRAL, MISTRAL_NAMED

MARKS = {
    mark for form in (HERMES, LLAMA, MISTRAL, MISTRAL_NAMED) for mark in form.marks
}


class MarkedVocabulary:
    """A vocabulary in which the marks of calls are text.

    Args:
        vocabulary: The model's.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._marks = {
            token: name.encode()
            for token, name in vocabulary.hidden.items()
            if name in MARKS
        }

    def token_bytes(self, token: int) -> bytes:
        """Return a token's bytes; b"" for one that is no text and no mark."""
        return self._marks.get(token) or self._vocabulary.token_bytes(token)
