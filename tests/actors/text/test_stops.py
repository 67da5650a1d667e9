from hypothesis import given, settings
from hypothesis import strategies as st

from legato.actors.text.stops import StopMatcher

STEADY = settings(max_examples=30, deadline=None, derandomize=True)

LETTERS = st.text("abc", min_size=1, max_size=4)
STOPS = st.lists(LETTERS, max_size=4).map(tuple)
PIECES = st.lists(st.text("abcd", max_size=4), max_size=12)


def first_match(text: str, stops: tuple[str, ...]) -> tuple[int, int] | None:
    """Find the match that completes first, by trying every place."""
    for end in range(len(text) + 1):
        begins = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if begins:
            return min(begins), end
    return None


@STEADY
@given(STOPS, PIECES, st.booleans())
def test_the_text_is_cut_where_trying_every_place_cuts_it(
    stops: tuple[str, ...], pieces: list[str], include_stop: bool
):
    matcher = StopMatcher(stops, include_stop)
    text = "".join([matcher.feed(piece) for piece in pieces]) + matcher.flush()
    whole = "".join(pieces)
    match = first_match(whole, stops)
    assert matcher.stopped is (match is not None)
    assert text == (whole if match is None else whole[: match[include_stop]])


@STEADY
@given(STOPS, PIECES)
def test_only_a_possible_beginning_of_a_stop_string_is_held(
    stops: tuple[str, ...], pieces: list[str]
):
    matcher = StopMatcher(stops, include_stop=False)
    released = ""
    whole = ""
    for piece in pieces:
        released += matcher.feed(piece)
        whole += piece
        if matcher.stopped:
            assert matcher.held == 0
            return
        prefixes = {stop[:size] for stop in stops for size in range(len(stop))}
        longest = max((len(it) for it in prefixes if whole.endswith(it)), default=0)
        assert matcher.held == longest
        assert released == whole[: len(whole) - longest]


@STEADY
@given(STOPS, PIECES)
def test_nothing_is_held_where_the_stop_string_stays(
    stops: tuple[str, ...], pieces: list[str]
):
    matcher = StopMatcher(stops, include_stop=True)
    for piece in pieces:
        text = matcher.feed(piece)
        if matcher.stopped:
            break
        assert text == piece


def test_a_stop_string_that_begins_and_ends_inside_pieces():
    matcher = StopMatcher(("END",), include_stop=False)
    assert matcher.feed("so E") == "so "
    assert matcher.feed("N") == ""
    assert matcher.feed("D, and on") == ""
    assert matcher.stopped
    assert matcher.feed("END more") == ""
    assert matcher.flush() == ""


def test_a_false_start_is_released_with_what_refutes_it():
    matcher = StopMatcher(("</s>",), include_stop=False)
    assert matcher.feed("a <") == "a "
    assert matcher.feed("/") == ""
    assert matcher.feed("/s>") == "<//s>"
    assert not matcher.stopped


def test_the_first_complete_match_wins_over_a_longer_one_that_began_before():
    matcher = StopMatcher(("abcd", "bc"), include_stop=False)
    assert matcher.feed("xabcd") == "xa"


def test_of_two_that_complete_together_the_one_that_began_earlier_wins():
    matcher = StopMatcher(("bc", "abc"), include_stop=False)
    assert matcher.feed("xabc") == "x"


def test_a_repeated_prefix_does_not_hide_the_match():
    matcher = StopMatcher(("aab",), include_stop=True)
    assert "".join([matcher.feed(it) for it in "aaaabzz"]) == "aaaab"


def test_no_stop_strings_let_everything_pass():
    matcher = StopMatcher((), include_stop=False)
    assert matcher.feed("anything") == "anything"
    assert matcher.held == 0
    assert not matcher.stopped
