"""Every grammar of an engine, compiled once and kept for those who ask again."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...protocol.grammar import Grammar
from ...protocol.steps import SlotOpen
from .lexicon import Lexicon
from .matcher import Matcher
from .source import refused, source_of
from .spelling import Spelling

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

MAX_KEPT = 64


class Grammars:
    """Compile grammars over one vocabulary. Threads may share it.

    Args:
        spell: Reads the vocabulary, the first time that a grammar is compiled: 0.5 s
            for 49,152 tokens, which engines without grammars never spend.
        capacity: Compiled grammars kept; the longest unused goes first.
    """

    def __init__(
        self, spell: Callable[[], Spelling], *, capacity: int = MAX_KEPT
    ) -> None:
        self._spell = spell
        self._capacity = capacity
        self._kept: OrderedDict[Grammar, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()
        self._tokenizer: LLTokenizer | None = None
        self._loading = threading.Lock()

    def has(self, grammar: Grammar) -> bool:
        """Whether a matcher of it can be had at once."""
        with self._lock:
            return grammar in self._kept

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar and keep it; blocks, without the interpreter lock.

        Raises:
            InvalidRequest: It cannot be compiled; says why.
        """
        self._compiled(grammar)

    def matcher(self, grammar: Grammar, answer: Sequence[int] = ()) -> Matcher:
        """Begin an answer, or go on with one.

        Args:
            grammar: Compiled now if it was not, or was not kept.
            answer: Its tokens so far.

        Raises:
            InvalidRequest: It cannot be compiled; says why.
        """
        state = self._compiled(grammar).deep_copy()
        if answer:
            state.consume_tokens(list(answer))
        return Matcher(state)

    def _compiled(self, grammar: Grammar) -> "LLMatcher":
        from llguidance import LLMatcher

        with self._lock:
            known = self._kept.get(grammar)
            if known is not None:
                self._kept.move_to_end(grammar)
                return known
        state = LLMatcher(self._vocabulary(), source_of(grammar), log_level=0)
        if state.is_error():
            raise refused(state.get_error())
        with self._lock:
            self._kept[grammar] = state
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        return state

    def _vocabulary(self) -> "LLTokenizer":
        from llguidance import LLTokenizer, TokenizerWrapper

        with self._loading:
            if self._tokenizer is None:
                spelling = self._spell()
                wrapper = TokenizerWrapper(Lexicon(spelling))
                self._tokenizer = LLTokenizer(wrapper, eos_token=list(spelling.ends))
            return self._tokenizer


def matcher_of(opened: SlotOpen, grammars: Grammars | None) -> Matcher | None:
    """Make the matcher of a slot; None for one without a grammar.

    Raises:
        ValueError: It has one, and there is nothing to compile it with.
        InvalidRequest: It cannot be compiled; whoever admits it finds out before.
    """
    grammar = opened.sampling.grammar
    if grammar is None:
        return None
    if grammars is None:
        raise ValueError("a slot has a grammar, but the runner was never equipped")
    return grammars.matcher(grammar, opened.history[opened.prompt_tokens :])
