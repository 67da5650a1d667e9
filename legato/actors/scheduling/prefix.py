"""The prefix tree: which page holds the keys and values of which tokens.

A node is one page's tokens under the node of the page before it, so that a path from
the root spells a text. Children are found by the tokens themselves, not by a digest of
them: no collision can serve one request with another's cache. Knows no reference
counts; the pool says when a page must be forgotten.

Full pages are shared in place. The last, partial page of a match is *copied*: its
owner may still be writing behind the part that matches.
"""

from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from itertools import islice

TAIL_CANDIDATES = 8
"""Children compared token by token, newest first: a bound on one look-up. What must not
be missed, a text that goes on from a partial page, is found by that page's length."""


def _no_children() -> dict[tuple[int, ...], "Node"]:
    return {}


@dataclass(slots=True, eq=False)
class Node:
    """One page of one text.

    Args:
        parent: The page before, or None for the root.
        tokens: What the page holds; fewer than a page only for a leaf.
        page: The page, meaningless for the root.
        attached: Whether it can still be reached from the root.
        children: The pages that follow, newest last.
        partial: How many of the children have so many tokens, less than a page.
    """

    parent: "Node | None"
    tokens: tuple[int, ...]
    page: int
    attached: bool = True
    children: dict[tuple[int, ...], "Node"] = field(default_factory=_no_children)
    partial: dict[int, int] = field(default_factory=dict[int, int])


@dataclass(slots=True)
class Match:
    """What the tree knows of a text's beginning.

    Args:
        node: The deepest full page that matches; the root if none does.
        pages: The full pages.
        tail: A page whose beginning matches further, to be copied, or None.
        tail_tokens: How far.
    """

    node: Node
    pages: list[int]
    tail: int | None = None
    tail_tokens: int = 0


class PrefixTree:
    """Texts at page granularity.

    Args:
        page_size: Tokens in a page.
    """

    def __init__(self, page_size: int) -> None:
        self._size = page_size
        self.root = Node(None, (), -1)
        self._nodes: dict[int, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, page: int) -> bool:
        return page in self._nodes

    def match(self, tokens: Tokens[int], limit: int) -> Match:
        """Find the longest beginning of ``tokens[:limit]`` that is in some page."""
        size = self._size
        node, start = self.root, 0
        pages: list[int] = []
        while start + size <= limit:
            child = node.children.get(tuple(tokens[start : start + size]))
            if child is None:
                break
            pages.append(child.page)
            node, start = child, start + size
        found = Match(node, pages)
        if start < limit:
            self._match_tail(found, tokens[start : min(start + size, limit)])
        return found

    def _match_tail(self, found: Match, rest: Tokens[int]) -> None:
        children, partial = found.node.children, found.node.partial
        for length in sorted(partial, reverse=True):
            child = children.get(tuple(rest[:length]))
            if child is not None and length <= len(rest):
                found.tail, found.tail_tokens = child.page, length
                break
        for child in islice(reversed(children.values()), TAIL_CANDIDATES):
            common = 0
            for ours, theirs in zip(rest, child.tokens, strict=False):
                if ours != theirs:
                    break
                common += 1
            if common > found.tail_tokens:
                found.tail, found.tail_tokens = child.page, common

    def publish(self, parent: Node, tokens: tuple[int, ...], page: int) -> Node | None:
        """Remember a page under its parent.

        Returns:
            The node of that text: a new one, or the one another page already has.
            None: the parent itself was forgotten, nothing can follow it.
        """
        if not parent.attached:
            return None
        known = parent.children.get(tokens)
        if known is not None:
            return known
        node = Node(parent, tokens, page)
        parent.children[tokens] = node
        if len(tokens) < self._size:
            parent.partial[len(tokens)] = parent.partial.get(len(tokens), 0) + 1
        self._nodes[page] = node
        return node

    def forget(self, page: int) -> list[int]:
        """Drop a page and all that follows it.

        Returns:
            The dropped pages; some may still be in use, and are private from now on.
        """
        top = self._nodes.get(page)
        if top is None:
            return []
        self._unlink(top)
        dropped: list[int] = []
        stack = [top]
        while stack:
            node = stack.pop()
            node.attached = False
            del self._nodes[node.page]
            dropped.append(node.page)
            stack.extend(node.children.values())
            node.children.clear()
            node.partial.clear()
            # A writer may hold a dropped node for long: let it hold no chain.
            node.parent = None
        return dropped

    def _unlink(self, node: Node) -> None:
        parent, length = node.parent, len(node.tokens)
        assert parent is not None, "the root has no page"
        del parent.children[node.tokens]
        if length < self._size:
            parent.partial[length] -= 1
            if not parent.partial[length]:
                del parent.partial[length]
