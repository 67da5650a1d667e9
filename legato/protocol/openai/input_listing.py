"""A response's input, as it is listed to who asks for it later."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

PREFIXES = {"function_call": "fc", "function_call_output": "fco"}

InputItems = tuple[dict[str, Any], ...]


def listed(given: str | Sequence[Mapping[str, Any]]) -> InputItems:
    """Give checked input items the ids and the full form they are listed with."""
    if isinstance(given, str):
        given = ({"role": "user", "content": given},)
    return tuple(_item(item) for item in given)


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type", "message")
    if kind != "message":
        own = {
            "id": item.get("id") or f"{PREFIXES[kind]}_{uuid.uuid4().hex}",
            "status": item.get("status") or "completed",
        }
        return {**item, **own}
    content, role = item.get("content"), item.get("role")
    if isinstance(content, str):
        kind = "output_text" if role == "assistant" else "input_text"
        part: dict[str, Any] = {"type": kind, "text": content}
        if role == "assistant":
            part["annotations"] = []
        content = [part]
    return {
        "id": item.get("id") or f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "status": item.get("status") or "completed",
        "role": role,
        "content": content,
    }


def page_of(
    items: InputItems, *, after: str | None, limit: int, newest_first: bool
) -> dict[str, Any]:
    """One page of a list of items.

    Args:
        items: Oldest first.
        after: The id of the last item of the page before, or None.
        limit: Items on a page.
        newest_first: Their order.
    """
    ordered = list(reversed(items)) if newest_first else list(items)
    ids = [item["id"] for item in ordered]
    begin = ids.index(after) + 1 if after in ids else 0
    page = ordered[begin : begin + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": begin + limit < len(ordered),
    }
