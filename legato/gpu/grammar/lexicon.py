"""A spelling in the form that llguidance reads: its tokens, and text to tokens."""

from .spelling import Spelling

# A byte that no UTF-8 text has marks names of tokens that are no text.
NAME = b"\xff"


class Lexicon:
    """Tokens, and how a text is spelled with them.

    Where only one text can come next the library has it spelled, and lets only the
    first of those tokens come: as the model itself would write it. A spelling that is
    not exactly the text would break the grammar, so there is another one for it.

    Args:
        spelling: The model's.
    """

    def __init__(self, spelling: Spelling) -> None:
        controls = spelling.controls
        self.eos_token_id = spelling.ends[0]
        self.bos_token_id = None
        self.special_token_ids = sorted(controls)
        self.tokens = [
            NAME + controls[token].encode() if token in controls else text
            for token, text in enumerate(spelling.tokens)
        ]
        self._spelling = spelling
        self._ids = {text: token for token, text in enumerate(spelling.tokens) if text}
        self._longest = max(map(len, self._ids), default=1)

    def __call__(self, text: str | bytes) -> list[int]:
        """Spell a text, whatever its bytes are."""
        exact = text.encode() if isinstance(text, str) else text
        usual = self._spelling.encode(exact.decode("utf-8", "replace"))
        if b"".join(self._spelling.tokens[token] for token in usual) == exact:
            return list(usual)
        return self._greedy(exact)

    def _greedy(self, text: bytes) -> list[int]:
        """Take the longest token that fits, again and again."""
        ids: list[int] = []
        while text:
            sizes = range(min(self._longest, len(text)), 0, -1)
            known = (size for size in sizes if text[:size] in self._ids)
            size = next(known, 0)
            if not size:
                return ids  # a byte without a token: nothing can spell the rest
            ids.append(self._ids[text[:size]])
            text = text[size:]
        return ids
