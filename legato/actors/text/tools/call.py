"""One call, read letter by letter: a JSON object with a name and arguments."""

import json
import re

ARGUMENTS = ("arguments", "parameters")
HALVES = re.compile("[\ud800-\udfff]")
SPACE = " \n\r\t"
FOLLOWING = {("more", ","): "next", ("colon", ":"): "begin"}


class CallReader:
    """Read one JSON object as it comes.

    Arguments are let go as they are read, in the model's own letters; before the name
    is known they wait. ``done`` after the last brace; ``broken`` if it is no object or
    has no name.
    """

    def __init__(self) -> None:
        self.name = ""
        self.done = False
        self.broken = False
        self._state = "open"
        self._key = ""
        self._value = ""
        self._num_released = 0
        self._waiting = ""
        self._depth = 0
        self._in_text = False
        self._escaped = False

    @property
    def between_values(self) -> bool:
        """Whether the last value is complete, and the object is not."""
        return self._state == "more" and not self.done

    def feed(self, letter: str) -> str:
        """Take the next letter; return what of the arguments is known by it."""
        if self._state == "value":
            return self._in_value(letter)
        if letter in SPACE and self._state != "key":
            return ""
        if self._state == "key":
            self._in_key(letter)
        elif self._state == "begin":
            self._state = "value"
            return self._in_value(letter)
        else:
            self._between(letter)
        return ""

    def _between(self, letter: str) -> None:
        state = self._state
        if state == "open" and letter == "{":
            self._state = "next"
        elif state in ("next", "more") and letter == "}":
            self.done = True
            self.broken = not self.name
        elif (state == "more" and letter == ",") or (
            state == "colon" and letter == ":"
        ):
            self._state = "next" if letter == "," else "begin"
        elif state == "next" and letter == '"':
            self._key, self._state = letter, "key"
        else:
            self.broken = True

    def _in_key(self, letter: str) -> None:
        self._key += letter
        if letter == '"' and not self._escaped:
            self._key = decoded(self._key)
            self._state = "colon"
        self._escaped = letter == "\\" and not self._escaped

    def _in_value(self, letter: str) -> str:
        """Follow a value to its end; its last letter may belong to what comes next."""
        if self._in_text:
            self._value += letter
            if letter == '"' and not self._escaped:
                self._in_text = False
            self._escaped = letter == "\\" and not self._escaped
            is_end = not self._in_text and self._depth == 0
            return self._release(is_end)
        if self._depth == 0 and letter in ",}" + SPACE and self._value:
            piece = self._release(True)
            self._between(letter)
            return piece
        self._value += letter
        self._in_text = letter == '"'
        self._depth += (letter in "{[") - (letter in "}]")
        self.broken = self.broken or self._depth < 0
        return self._release(self._depth == 0 and letter in "}]")

    def _release(self, is_end: bool) -> str:
        piece = ""
        if self._key in ARGUMENTS:
            # Some models write the object as a text that holds it.
            if not self._value.startswith('"'):
                piece = self._value[self._num_released :]
                self._num_released = len(self._value)
            elif is_end:
                piece = decoded(self._value)
        if is_end:
            if self._key == "name" and self._value.startswith('"'):
                self.name = decoded(self._value)
            self._value, self._num_released, self._state = "", 0, "more"
        self._waiting += piece
        if not self.name:
            return ""
        piece, self._waiting = self._waiting, ""
        return piece


def decoded(text: str) -> str:
    """The text that a JSON string stands for; "" for one that is none.

    An escape may name half a character, which no text can hold.
    """
    try:
        said = str(json.loads(text, strict=False))
    except ValueError:
        return ""
    return HALVES.sub("\ufffd", said)
