"""What a response says: one item after another, told apart as the answer comes."""

import codecs
import uuid
from collections.abc import Iterator
from typing import Any

from ..requests import Delta
from ..tools import AnswerPiece, CallBegun, CallPiece, ToolCall
from .calls import CallParser
from .logprobs import TokenBytes, token_logprobs
from .output_items import CallItem, Entries, MessageItem, place_of
from .response_frames import FrameWriter

Told = tuple[str, list[dict[str, Any]]]
"""A text, and an entry for each of its tokens."""


class ResponseOutput:
    """The items of one response.

    Args:
        writer: Of the response.
        name: The first message's id.
        token_bytes: The bytes behind a token id.
        parser: Tells calls from text; None: there are no functions.
    """

    def __init__(
        self,
        writer: FrameWriter,
        name: str,
        token_bytes: TokenBytes,
        parser: CallParser | None,
    ) -> None:
        self.items: list[dict[str, Any]] = []
        self.calls: list[ToolCall] = []
        # A message that comes first, which is almost every one.
        self.shape = writer.shape(place_of(name, 0))
        self._name = name
        self._writer = writer
        self._token_bytes = token_bytes
        self._parser = parser
        self._item: MessageItem | CallItem | None = None
        self._texts: list[str] = []
        self._undecided: list[Told] = []

    @property
    def text(self) -> str:
        """The text of all messages so far."""
        said = self._item.text if isinstance(self._item, MessageItem) else ""
        return "".join((*self._texts, said))

    def take(self, delta: Delta) -> list[str]:
        """Tell what is new; nothing if the delta shows nothing."""
        if not delta.logprobs:
            if self._parser is not None:
                return self._put(self._parser.feed(delta.text))
            return self._say(delta.text) if delta.text else []
        entries = token_logprobs(delta, self._token_bytes)
        if self._parser is None:
            return self._say(delta.text, entries)
        frames: list[str] = []
        for told in by_token(delta.text, entries):
            # A token's entry goes where its text goes, which may be known later.
            self._undecided.append(told)
            frames += self._put(self._parser.feed(told[0]))
        return frames

    def finish(self, status: str) -> list[str]:
        """Close what is open: the response ends with this status.

        An answer that ran its course has an item, if only an empty message.
        """
        frames = [] if self._parser is None else self._put(self._parser.finish())
        nothing = self._item is None and not self.items
        if nothing and status in ("completed", "incomplete"):
            frames += self._open_message()
        done = "completed" if status == "completed" else "incomplete"
        return frames + self._close(done)

    def _put(self, pieces: list[AnswerPiece]) -> list[str]:
        frames: list[str] = []
        for piece in pieces:
            if isinstance(piece, str):
                frames += self._say(piece, self._entries_of(piece))
                continue
            self._undecided = []  # a call's tokens have no place for theirs
            if isinstance(piece, CallBegun):
                frames += self._close("completed")
                self._item = CallItem(self._writer, piece.name, len(self.items))
                frames += self._item.open()
            elif isinstance(self._item, CallItem):
                if isinstance(piece, CallPiece):
                    frames.append(self._item.add(piece.text))
                else:
                    self._item.complete = True
                    frames += self._close("completed")
        return frames

    def _entries_of(self, text: str) -> Entries:
        """The entries of a text just let go; what came before it was no text."""
        undecided, self._undecided = self._undecided, []
        taken: list[list[dict[str, Any]]] = []
        left = len(text)
        # A token without a text of its own is part of the next one's character.
        while undecided and (left > 0 or not undecided[-1][0]):
            said, entries = undecided.pop()
            taken.append(entries)
            left -= len(said)
        return [entry for entries in reversed(taken) for entry in entries]

    def _say(self, text: str, entries: Entries = ()) -> list[str]:
        item = self._item
        if isinstance(item, MessageItem):
            return [item.add(text, entries)]
        frames = self._open_message()
        assert isinstance(self._item, MessageItem), "it was just opened"
        return [*frames, self._item.add(text, entries)]

    def _open_message(self) -> list[str]:
        frames = self._close("completed")
        index, name, shape = len(self.items), self._name, self.shape
        if index:
            name = f"msg_{uuid.uuid4().hex}"
            shape = self._writer.shape(place_of(name, index))
        self._item = MessageItem(self._writer, name, index, shape)
        return frames + self._item.open()

    def _close(self, status: str) -> list[str]:
        item, self._item = self._item, None
        if item is None:
            return []
        if isinstance(item, MessageItem):
            self._texts.append(item.text)
            frames, closed = item.close(status)
        else:
            if item.complete:
                self.calls.append(item.call)
            frames, closed = item.close()
        self.items.append(closed)
        return frames


def by_token(text: str, entries: list[dict[str, Any]]) -> Iterator[Told]:
    """Cut what several tokens said together; whole where that cannot be told."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    texts = [decode(bytes(entry["bytes"])) for entry in entries]
    if "".join(texts) == text:
        yield from zip(texts, ([entry] for entry in entries), strict=True)
    else:
        yield text, entries
