"""The items of one Realtime session's conversation, in order and within bounds.

Owned by the session.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidRequest
from ..requests import ChatMessage
from .document import convert
from .realtime_items import Item, Reference, read_item
from .refusal import Refusal

MAX_ITEMS = 4096
MAX_CHARACTERS = 4 * 2**20

# The specification's word for the place before the first item.
ROOT = "root"


class Conversation:
    """A conversation.

    Args:
        name: Its id.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._items: list[Item] = []
        self._names: set[str] = set()
        self._characters = 0

    def insert(self, item: Item, after: str | None = None) -> str | None:
        """Put an item in.

        Args:
            item: With an id.
            after: The item before it; ``root`` for none, None for the last.

        Returns:
            The id of the item before it, or None.

        Raises:
            InvalidRequest: The id is taken, or nothing has the id ``after``.
            Refusal: The conversation is full.
        """
        if self._find(item.id) is not None:
            raise InvalidRequest(
                f"the conversation already has an item {item.id!r}", field="item.id"
            )
        if after is None:
            at = len(self._items)
        elif after == ROOT:
            at = 0
        else:
            found = self._find(after)
            if found is None:
                raise InvalidRequest(
                    f"the conversation has no item {after!r}", field="previous_item_id"
                )
            at = found + 1
        self._check_room(item)
        self._items.insert(at, item)
        self._names.add(item.id)
        self._characters += item.num_characters
        return self._items[at - 1].id if at else None

    def _check_room(self, item: Item) -> None:
        characters = self._characters + item.num_characters
        if len(self._items) >= MAX_ITEMS or characters > MAX_CHARACTERS:
            raise Refusal(
                400,
                "conversation_full",
                f"a conversation has at most {MAX_ITEMS} items and {MAX_CHARACTERS} "
                "characters; delete some",
                param="item",
            )

    def settle(self, item: Item) -> None:
        """Replace an item that was in progress."""
        at = self._find(item.id)
        assert at is not None, "an item in progress cannot be deleted"
        self._characters += item.num_characters - self._items[at].num_characters
        self._items[at] = item

    def get(self, name: str) -> Item:
        """Return an item.

        Raises:
            Refusal: There is none of this id.
        """
        at = self._find(name)
        if at is None:
            raise not_found("item_retrieve_invalid_item_id", name)
        return self._items[at]

    def delete(self, name: str) -> None:
        """Take an item out.

        Raises:
            Refusal: There is none of this id, or it is still being written.
        """
        at = self._find(name)
        if at is None:
            raise not_found("item_delete_invalid_item_id", name)
        if self._items[at].status == "in_progress":
            raise Refusal(
                400,
                "item_in_progress",
                f"the item {name!r} is still being written; cancel its response first",
                param="item_id",
            )
        self._names.discard(name)
        self._characters -= self._items.pop(at).num_characters

    def turns(
        self, instructions: str, given: Iterable[Mapping[str, Any]] | None = None
    ) -> tuple[ChatMessage, ...]:
        """What the model reads for a response.

        Args:
            instructions: A system message before everything else, or "".
            given: Items to read in place of the conversation's: whole, or references
                to some of these.

        Raises:
            InvalidRequest: Nothing to read, or an item at fault.
        """
        items = self._items if given is None else self._given(given)
        turns = [ChatMessage("system", instructions)] if instructions else []
        # One that is still being written would change under the model's eyes.
        turns += [item.turn() for item in items if item.status != "in_progress"]
        if not turns:
            raise InvalidRequest(
                "there is nothing to respond to: create an item, or give instructions",
                field="response.input",
            )
        return tuple(turns)

    def _given(self, given: Iterable[Mapping[str, Any]]) -> list[Item]:
        items: list[Item] = []
        for number, fields in enumerate(given):
            where = f"response.input[{number}]"
            if fields.get("type") == "item_reference":
                name = convert(fields, Reference, where).id
                at = self._find(name)
                if at is None:
                    raise InvalidRequest(
                        f"the conversation has no item {name!r}", field=f"{where}.id"
                    )
                items.append(self._items[at])
            else:
                items.append(read_item(fields, where))
        return items

    def _find(self, name: str) -> int | None:
        if name not in self._names:
            return None
        # From the end: what is asked for is nearly always among the last.
        for at in range(len(self._items) - 1, -1, -1):
            if self._items[at].id == name:
                return at
        return None


def not_found(code: str, name: str) -> Refusal:
    """The refusal of an item that is not there."""
    text = f"the conversation has no item {name!r}"
    return Refusal(404, code, text, param="item_id")
