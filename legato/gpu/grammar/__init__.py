"""Grammars at work: which tokens may come next.

Knows llguidance and bytes of tokens; neither torch nor where the tokens come from. It
is part of the execution room because a token's successor depends on it before the host
has seen the token.
"""

from .grammars import Grammars, matcher_of
from .matcher import Matcher
from .source import check_grammar, embedded
from .spelling import Spelling

__all__ = ["Grammars", "Matcher", "Spelling", "check_grammar", "embedded", "matcher_of"]
