"""A model's vocabulary: text to ids, ids to bytes.

Knows nothing of chat. Immutable once loaded, so threads may share it.
"""

from collections.abc import Iterable

from ...protocol.errors import InvalidModel, InvalidRequest
from ...protocol.models import VocabularySource
from .byte_level import byte_level_material
from .control import ControlTexts
from .material import Material
from .sentencepiece import sentencepiece_material
from .tokenizer_file import file_material


class Vocabulary:
    """Encode text and spell tokens.

    ``table`` holds each id's bytes, ``hidden`` the names of control tokens by id.

    Args:
        material: The tokenizer and its table.
        source: What the checkpoint says of begin and end.
    """

    def __init__(self, material: Material, source: VocabularySource) -> None:
        self.size = len(material.table)
        # A text of n bytes takes at least n / max_token_bytes tokens: what can never
        # fit is known without encoding it (1 s and 180 MB for a megabyte).
        self.max_token_bytes = max(map(len, material.table), default=0)
        self.bos_id = source.bos_id
        self.eos_id = source.eos_id
        for token in (source.bos_id, source.eos_id):
            if token is not None and not 0 <= token < self.size:
                raise InvalidModel(
                    f"the model's begin or end token {token} is outside its "
                    f"vocabulary of {self.size}"
                )
        self.special_ids = frozenset(material.hidden)
        self.control_texts = frozenset(material.hidden.values())
        self._controls = ControlTexts(self.control_texts)
        # What the model wants put around every text.
        self.begin_id = source.bos_id if source.add_bos else None
        self.end_id = source.eos_id if source.add_eos else None
        self._plain = material.plain
        self._marked = material.marked
        self.table = material.table
        self.hidden = material.hidden
        self._forbidden = self.special_ids - {source.unk_id}

    @classmethod
    def load(cls, source: VocabularySource) -> "Vocabulary":
        """Build from what the checkpoint says; takes a part of a second.

        Raises:
            InvalidModel: The material is broken or of a kind that is not supported.
        """
        if source.kind == "bpe":
            material = byte_level_material(source)
        elif source.kind == "spm":
            material = sentencepiece_material(source)
        else:
            material = file_material(source)
        return cls(material, source)

    def encode(
        self, text: str, *, add_bos: bool | None = None, special: bool = False
    ) -> tuple[int, ...]:
        """Encode a text.

        Args:
            text: Any text. Bytes for which the vocabulary has no token at all are left
                out, as the library does.
            add_bos: Begin with ``bos_id``, unless the text does so itself. None does
                as the model wants, and then also ends the text if the model wants that.
            special: Control tokens in the text are themselves. Otherwise they are
                text, as everything that a user wrote must be.

        Raises:
            InvalidRequest: The text is not Unicode: half a surrogate pair.
        """
        ids = self._encode(text, special)
        if not special and not self._forbidden.isdisjoint(ids):
            ids = self._encode_apart(text)
        begin = self.begin_id if add_bos is None else self.bos_id if add_bos else None
        end = self.end_id if add_bos is None else None
        if begin is not None and ids[:1] != (begin,):
            ids = (begin, *ids)
        return ids if end is None else (*ids, end)

    def token_bytes(self, token: int) -> bytes:
        """Return a token's bytes; b"" for control tokens and ids out of range."""
        return self.table[token] if 0 <= token < self.size else b""

    def token_text(self, token: int) -> str:
        """Show one token alone: control tokens by name, broken characters as U+FFFD."""
        if token in self.hidden:
            return self.hidden[token]
        return self.token_bytes(token).decode("utf-8", "replace")

    def decode(self, ids: Iterable[int]) -> str:
        """Join the tokens' bytes and decode them; control tokens are no text."""
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", "replace")

    def _encode(self, text: str, special: bool) -> tuple[int, ...]:
        tokenizer = self._marked if special else self._plain
        try:
            # A batch of one releases the interpreter lock all the while, and skips
            # offsets that nobody reads: 5.4 MB stall the loop for 30 ms, not 275 ms.
            (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        except TypeError as error:
            raise InvalidRequest(
                "the text has half a surrogate pair, which is not Unicode",
                field="prompt",
            ) from error
        return tuple(encoding.ids)

    def _encode_apart(self, text: str) -> tuple[int, ...]:
        """Encode text in which the model itself, not its marks, sees control tokens.

        Some vocabularies hold them as ordinary pieces too. Each is cut after its first
        character, so that no piece is the whole of it.
        """
        parts = self._controls.broken(text)
        return tuple(token for part in parts for token in self._encode(part, False))
