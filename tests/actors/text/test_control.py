import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.control import GUARD, MARK, ControlTexts, unguarded

STEADY = settings(max_examples=30, deadline=None, derandomize=True)
NAMES = ("<a>", "<ab>", "b>c", "<")
TEXT = st.text("<ab>c ", max_size=12)
HOSTILE = st.text("<ab>c \ufdd0\ufdd1\ufdd2", max_size=12)
CONTROLS = ControlTexts(NAMES)
MEGABYTE = 1_000_000


def test_occurrences_overlap_and_come_in_order_longer_first():
    controls = ControlTexts(("<a>", "<a>>", ">>"))
    assert controls.occurrences("x<a>>") == [(1, "<a>>"), (1, "<a>"), (3, ">>")]


@STEADY
@given(TEXT)
def test_broken_parts_join_to_the_text_and_hold_no_longer_control_text(text: str):
    parts = CONTROLS.broken(text)
    assert "".join(parts) == text
    assert not any(name in part for part in parts for name in NAMES if len(name) > 1)


@STEADY
@given(TEXT)
def test_segments_join_to_the_text_and_hide_no_control_text(text: str):
    segments = list(CONTROLS.segments(text))
    assert "".join(segment for segment, _ in segments) == text
    for segment, is_control in segments:
        assert is_control is (segment in NAMES)
        assert is_control or not any(name in segment for name in NAMES)


@STEADY
@given(TEXT, st.lists(TEXT | HOSTILE, max_size=3))
def test_no_neighbour_turns_a_guarded_content_into_a_control_text(
    template: str, contents: list[str]
):
    controls = ControlTexts(("<a>", "<ab>", "b>c"))
    whole = template.join(["", *map(controls.guarded, contents), ""])
    own = template.join(["", *("\0" for _ in contents), ""])
    assert sum(is_control for _, is_control in controls.segments(whole)) == sum(
        is_control for _, is_control in controls.segments(own)
    )
    assert unguarded(whole) == template.join(["", *contents, ""])


def test_a_guard_stays_when_a_template_trims():
    guarded = CONTROLS.guarded("  b>c x <a  ")
    assert unguarded(guarded.strip()) == "b>c x <a"
    assert guarded.strip().endswith(GUARD)


def test_harmless_content_gets_no_guard():
    controls = ControlTexts(("<|im_end|>", "</s>"))
    assert controls.guarded("a < b, c > d.") == "a < b, c > d."
    assert controls.guarded("") == ""


@STEADY
@given(HOSTILE)
def test_guards_are_told_from_marks_that_a_content_holds(content: str):
    guarded = CONTROLS.guarded(content)
    assert unguarded(guarded) == content
    assert guarded.count(GUARD) == guarded.count(MARK) - content.count(MARK)


@pytest.mark.parametrize(
    "unit",
    [
        MARK,
        GUARD,
        "\ufdd0\ufdd1",
        "\ufdd0<end>",
        "<end>",
        "\ufdd0\ufdd2<end>",
        "<<end>",
    ],
    ids=ascii,
)
def test_guarding_costs_little_whatever_a_content_holds(unit: str):
    controls = ControlTexts(("<end>", "<begin>"))
    content = unit * (50_000 // len(unit))
    guarded = controls.guarded(content)
    assert len(guarded) <= 2 * len(content) + 2
    assert unguarded(guarded) == content


def test_many_marks_make_no_guard_longer():
    marks, names = MARK * 10_000, "<end>" * 10_000
    guarded = ControlTexts(("<end>",)).guarded(marks + names)
    assert guarded.count(GUARD) == 10_000
    assert len(guarded) == 2 * len(marks) + len(names) + len(GUARD) * 10_000


@pytest.mark.slow
@pytest.mark.parametrize("unit", [MARK, GUARD, "<end>", "\ufdd0<end>"], ids=ascii)
def test_a_megabyte_of_anything_is_guarded(unit: str):
    content = unit * (MEGABYTE // len(unit))
    guarded = ControlTexts(("<end>", "<begin>")).guarded(content)
    assert len(guarded) <= 2 * len(content) + 2
    assert unguarded(guarded) == content
