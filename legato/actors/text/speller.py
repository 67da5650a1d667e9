"""Spells a model's tokens for grammars, wherever the engine's core runs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...gpu.grammar import Spelling
from ...protocol.models import TextSource
from .vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Speller:
    """Reads a vocabulary when it is asked to; can cross to another process.

    Args:
        text: Reads the model's text.
    """

    text: Callable[[], TextSource]

    def __call__(self) -> Spelling:
        """Load the vocabulary; blocks for a part of a second.

        Raises:
            InvalidModel: It is broken.
        """
        source = self.text()
        vocabulary = Vocabulary.load(source.vocabulary)
        return Spelling(
            tokens=vocabulary.table,
            controls=vocabulary.hidden,
            ends=source.stop_ids,
            encode=partial(vocabulary.encode, add_bos=False),
        )
