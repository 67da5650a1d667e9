"""Calls in an answer's text, told apart from the text, as it comes."""

from ....protocol.tools import AnswerPiece, CallBegun, CallEnded, CallPiece
from .call import SPACE, CallReader
from .format import ToolFormat

BETWEEN = SPACE + ",;[]"


class ToolParser:
    """Read one answer.

    What it gives does not depend on how the text is cut: the pieces of streamed calls
    joined are the calls of the whole. Text that only looks like a call is text. White
    space around calls is not told.

    Args:
        form: How the model writes calls.
    """

    def __init__(self, form: ToolFormat) -> None:
        self._form = form
        self._rest = ""
        self._raw = ""
        self._space = ""
        self._holding = True
        self._in_calls = False
        self._bare = form.bare
        self._reader: CallReader | None = None
        self._named = ""
        self._announced = False
        self._argued = False
        self._pieces: list[AnswerPiece] = []
        self.num_calls = 0

    def feed(self, text: str) -> list[AnswerPiece]:
        """Take text; return what is certain by it."""
        self._rest += text
        while self._rest and (
            self._call_step() if self._in_calls else self._text_step()
        ):
            pass
        return self._take()

    def finish(self) -> list[AnswerPiece]:
        """Return what was held back: no text follows."""
        if self._in_calls and not self._announced:
            self._say(self._raw)
        if not self._in_calls or not self._announced:
            self._say(self._rest)
        self._rest = self._raw = ""
        if self._space and not self.num_calls:
            self._pieces.append(self._space)
        self._space = ""
        return self._take()

    def _take(self) -> list[AnswerPiece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _text_step(self) -> bool:
        """Let text go, up to where a call may begin."""
        opener = self._form.opener
        if self._bare:
            start = self._rest.lstrip(SPACE)
            if not start:
                return False
            self._bare = False
            if start[0] == "{":
                self._open_calls("", self._rest)
                return True
        before, found, after = self._rest.partition(opener)
        if found:
            self._say(before)
            self._open_calls(found, after)
            return True
        held = overlap(self._rest, opener)
        self._say(self._rest[: len(self._rest) - held])
        self._rest = self._rest[len(self._rest) - held :]
        return False

    def _open_calls(self, raw: str, rest: str) -> None:
        self._in_calls, self._announced = True, False
        self._raw, self._rest = raw, rest

    def _call_step(self) -> bool:
        """Read on among calls; False where more text is needed."""
        if self._reader is not None:
            self._read(self._reader)
            return True
        form, rest = self._form, self._rest
        for mark in (form.closer, form.opener):
            if mark and rest.startswith(mark):
                self._rest = rest[len(mark) :]
                if mark == form.closer:
                    self._close_calls(mark)
                return True
            if mark and mark.startswith(rest):
                return False
        if form.named and rest[0] not in BETWEEN + "{":
            return self._read_name()
        letter, self._rest = rest[0], rest[1:]
        self._raw += letter
        if letter == "{":
            self._reader, self._announced = CallReader(), False
            self._reader.feed(letter)
        elif letter not in BETWEEN:
            self._give_up()
        return True

    def _read_name(self) -> bool:
        """Read ``name mark arguments``, whose arguments are the object itself."""
        name, found, after = self._rest.partition(self._form.named)
        brace = name.find("{")
        if brace < 0 and not found:
            return False
        if brace >= 0:
            name, after = name[:brace], self._rest[brace:]
        self._raw += self._rest[: len(self._rest) - len(after)]
        reader = CallReader()
        for letter in '{"name":""':
            reader.feed(letter)
        reader.name = name.strip()
        for letter in ',"arguments":':
            reader.feed(letter)
        self._named = "}"
        self._reader, self._announced, self._rest = reader, False, after
        return True

    def _read(self, reader: CallReader) -> None:
        letters, self._rest = self._rest, ""
        arguments: list[str] = []
        for number, letter in enumerate(letters, 1):
            arguments.append(reader.feed(letter))
            self._raw += letter
            if self._named and reader.between_values:
                reader.feed(self._named)
            if reader.name and not self._announced and not reader.broken:
                self._announce(reader.name)
            if reader.done or reader.broken:
                self._rest = letters[number:]
                break
        piece = "".join(arguments)
        if piece and self._announced:
            self._argued = True
            self._pieces.append(CallPiece(self.num_calls - 1, piece))
        if reader.done or reader.broken:
            self._reader, self._named = None, ""
            if self._announced:
                self._raw = ""
                if reader.done:
                    self._end_call()
            else:
                self._give_up()

    def _announce(self, name: str) -> None:
        self._announced, self._argued = True, False
        self._raw, self._space = "", ""
        self._pieces.append(CallBegun(self.num_calls, name))
        self.num_calls += 1

    def _end_call(self) -> None:
        number = self.num_calls - 1
        if not self._argued:
            self._pieces.append(CallPiece(number, "{}"))  # it wrote none at all
        self._pieces.append(CallEnded(number))

    def _close_calls(self, mark: str) -> None:
        self._in_calls = False
        if self._announced:
            self._holding = True
        else:
            self._say(self._raw + mark)  # an empty pair of tags
        self._raw = ""

    def _give_up(self) -> None:
        """What looked like calls is text."""
        self._in_calls = False
        raw, self._raw = self._raw, ""
        self._say(raw)

    def _say(self, text: str) -> None:
        """Let text go; white space before all else and after calls waits."""
        if self._holding:
            text = self._space + text
            self._space = ""
            if not text.strip(SPACE):
                self._space = text
                return
            self._holding = False
        if text:
            self._pieces.append(text)


def overlap(text: str, mark: str) -> int:
    """How much of a text's end may be the beginning of a mark."""
    for size in range(min(len(text), len(mark) - 1), 0, -1):
        if mark.startswith(text[-size:]):
            return size
    return 0
