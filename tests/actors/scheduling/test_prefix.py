"""The prefix tree against a model that knows every text by heart."""

import os

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from legato.actors.scheduling.prefix import Node, PrefixTree

SCALE = int(os.environ.get("LEGATO_MACHINE_STEPS", "1"))

SIZE = 2


def spell(tree: PrefixTree, *pages: tuple[int, ...]) -> Node:
    node = tree.root
    for tokens in pages:
        found = tree.publish(node, tokens, len(tree))
        assert found is not None
        node = found
    return node


def test_a_match_goes_as_deep_as_full_pages_do():
    tree = PrefixTree(2)
    node = spell(tree, (1, 2), (3, 4))
    match = tree.match([1, 2, 3, 4, 5], 4)
    assert match.pages == [0, 1]
    assert match.node is node
    assert match.tail is None


def test_the_limit_leaves_a_token_to_compute_by_copying_the_last_page():
    tree = PrefixTree(2)
    spell(tree, (1, 2), (3, 4))
    match = tree.match([1, 2, 3, 4], 3)
    assert match.pages == [0]
    assert (match.tail, match.tail_tokens) == (1, 1)


def test_the_longest_of_the_partial_matches_is_the_tail():
    tree = PrefixTree(4)
    tree.publish(tree.root, (1, 2, 9, 9), 0)
    tree.publish(tree.root, (1, 2, 3), 1)
    tree.publish(tree.root, (1, 8), 2)
    match = tree.match([1, 2, 3, 4, 5], 5)
    assert (match.tail, match.tail_tokens) == (1, 3)


def test_a_text_goes_on_from_its_partial_page_however_many_siblings_it_has():
    tree = PrefixTree(4)
    for page in range(100):
        tree.publish(tree.root, (1, page), page)
        tree.publish(tree.root, (1, page, 7, 7), 1000 + page)
    match = tree.match([1, 5, 6, 7, 8], 4)
    assert (match.tail, match.tail_tokens) == (5, 2)


def test_the_same_text_keeps_its_first_page():
    tree = PrefixTree(2)
    first = tree.publish(tree.root, (1, 2), 7)
    assert tree.publish(tree.root, (1, 2), 8) is first
    assert 8 not in tree


def test_equal_pages_under_other_parents_are_other_texts():
    tree = PrefixTree(2)
    spell(tree, (1, 2), (5, 6))
    assert tree.match([3, 4, 5, 6], 4).pages == []


def test_forgetting_a_page_forgets_what_follows_and_nothing_else():
    tree = PrefixTree(2)
    node = spell(tree, (1, 2), (3, 4), (5, 6))
    other = tree.publish(tree.root, (9, 9), 8)
    assert sorted(tree.forget(1)) == [1, 2]
    assert tree.match([1, 2, 3, 4], 4).pages == [0]
    assert tree.match([9, 9], 2).node is other
    assert tree.publish(node, (7, 8), 5) is None
    assert tree.forget(1) == []


class TreeMachine(RuleBasedStateMachine):
    """Texts over two letters, so that they share much."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = PrefixTree(SIZE)
        self.texts: dict[int, tuple[int, ...]] = {}
        self.nodes: dict[int, Node] = {}
        self.next_page = 0

    @rule(
        pick=strategies.integers(0, 100),
        tokens=strategies.lists(strategies.integers(0, 1), min_size=1, max_size=SIZE),
    )
    def publish(self, pick: int, tokens: list[int]) -> None:
        full = [p for p, text in self.texts.items() if len(text) % SIZE == 0]
        parent, before = self.tree.root, ()
        if full and pick % 3:
            page = full[pick % len(full)]
            parent, before = self.nodes[page], self.texts[page]
        text = before + tuple(tokens)
        node = self.tree.publish(parent, tuple(tokens), self.next_page)
        assert node is not None
        if text in self.texts.values():
            assert self.texts[node.page] == text
        else:
            assert node.page == self.next_page
            self.texts[node.page], self.nodes[node.page] = text, node
        self.next_page += 1

    @precondition(lambda self: self.texts)
    @rule(pick=strategies.integers(0, 100))
    def forget(self, pick: int) -> None:
        page = list(self.texts)[pick % len(self.texts)]
        text = self.texts[page]
        gone = {p for p, t in self.texts.items() if t[: len(text)] == text}
        if len(text) % SIZE:
            gone = {page}
        assert set(self.tree.forget(page)) == gone
        for other in gone:
            del self.texts[other], self.nodes[other]

    @rule(tokens=strategies.lists(strategies.integers(0, 1), min_size=1, max_size=9))
    def match(self, tokens: list[int]) -> None:
        limit = len(tokens) - 1
        match = self.tree.match(tokens, limit)
        known = set(self.texts.values())
        depth = 0
        while (end := (depth + 1) * SIZE) <= limit and tuple(tokens[:end]) in known:
            depth += 1
        assert len(match.pages) == depth
        for index, page in enumerate(match.pages):
            assert self.texts[page] == tuple(tokens[: (index + 1) * SIZE])
        held = depth * SIZE
        if match.tail is not None:
            held += match.tail_tokens
            assert self.texts[match.tail][:held] == tuple(tokens[:held])
        assert held <= limit
        begins = any(text[: held + 1] == tuple(tokens[: held + 1]) for text in known)
        assert held == limit or not begins

    @invariant()
    def the_tree_holds_what_was_published(self) -> None:
        assert len(self.tree) == len(self.texts)


TreeMachine.TestCase.settings = settings(
    max_examples=10 * SCALE,
    stateful_step_count=20,
    deadline=None,
    derandomize=SCALE == 1,
)
TestTree = TreeMachine.TestCase
