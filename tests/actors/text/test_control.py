from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.control import ControlTexts, mark_absent_from

STEADY = settings(max_examples=30, deadline=None, derandomize=True)
NAMES = ("<a>", "<ab>", "b>c", "<")
TEXT = st.text("<ab>c ", max_size=12)
CONTROLS = ControlTexts(NAMES)


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
@given(TEXT, st.lists(TEXT, max_size=3))
def test_no_neighbour_turns_a_guarded_content_into_a_control_text(
    template: str, contents: list[str]
):
    controls = ControlTexts(("<a>", "<ab>", "b>c"))
    mark = mark_absent_from(contents)
    whole = template.join(["", *(controls.guarded(it, mark) for it in contents), ""])
    own = template.join(["", *("\0" for _ in contents), ""])
    assert sum(is_control for _, is_control in controls.segments(whole)) == sum(
        is_control for _, is_control in controls.segments(own)
    )
    assert whole.replace(mark, "") == template.join(["", *contents, ""])


def test_a_mark_stays_when_a_template_trims():
    guarded = CONTROLS.guarded("  b>c x <a  ", "#")
    assert guarded.strip().replace("#", "") == "b>c x <a"
    assert guarded.strip().endswith("#")


def test_harmless_content_gets_no_mark():
    controls = ControlTexts(("<|im_end|>", "</s>"))
    assert controls.guarded("a < b, c > d.", "#") == "a < b, c > d."
    assert controls.guarded("", "#") == ""


def test_the_mark_is_in_none_of_the_texts():
    mark = mark_absent_from(["a\ufdd0\ufdd0b", "\ufdd0"])
    assert mark == "\ufdd0" * 3
