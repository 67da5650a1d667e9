"""Slots and pages, and what the prefix cache saves."""

from legato.protocol.requests import Cancel


def test_the_next_turn_of_a_conversation_prefills_only_what_is_new(new_drive):
    drive = new_drive()
    first = drive.admit(0, 10, 9)
    drive.finish()
    # The last token was sampled but never computed.
    turn = (*first.prompt, *drive.tokens[0], 1, 2, 3)
    drive.admit(1, turn, 4)
    plan = drive.plan()
    assert plan.rows[0].start == 18
    assert plan.rows[0].tokens == turn[18:]
    assert len(plan.copies) == 1
    drive.finish()
    assert drive.tokens[1] == drive.truth(1)
    assert drive.ended[1].usage.cached_tokens == 18


def test_a_repeated_prompt_still_computes_one_token(new_drive):
    drive = new_drive()
    drive.admit(0, (*range(8),), 3)
    drive.finish()
    drive.admit(1, (*range(8),), 3)
    assert drive.plan().rows[0].tokens == (7,)
    drive.finish()
    assert drive.tokens[1] == drive.truth(1)


def test_eviction_takes_the_end_of_a_text_before_its_beginning(new_drive):
    drive = new_drive()
    drive.admit(0, (*range(40),), 1)
    drive.finish()
    cached = drive.planner.stats(0.0).pages_cached
    drive.admit(1, tuple(63 - i % 50 for i in range(62)), 2)
    drive.admit(2, tuple(62 - i % 50 for i in range(62)), 2)
    drive.finish()
    assert cached == 10
    drive.admit(3, (*range(40),), 1)
    start = drive.plan().rows[0].start
    assert start % 4 == 0 or start == 39
    drive.finish()
    assert drive.tokens[3] == drive.truth(3)


def test_the_whole_pool_serves_one_sequence_even_when_all_of_it_is_cached(new_drive):
    drive = new_drive()
    limits = drive.limits
    prompt = tuple(i % 60 for i in range(50))
    for request in range(6):
        # Each is a new text with the same beginning: matches and evictions mix.
        drive.admit(request, (*prompt, request), 64 - 51)
        drive.finish()
        assert drive.tokens[request] == drive.truth(request)
    stats = drive.planner.stats(0.0)
    assert stats.pages_free + stats.pages_cached == limits.num_pages


def test_a_copy_that_was_never_made_is_not_remembered(new_drive):
    drive = new_drive(max_step_tokens=4)
    drive.admit(0, (*range(10),), 2)
    drive.finish()
    drive.admit(1, tuple(range(60, 0, -1)), 2)
    drive.now_s += 1.0
    drive.admit(2, (*range(9), 50, 51), 2)
    plan = drive.plan()
    # The long prompt has waited and takes the step; the other got its slot already.
    assert (len(plan.opens), plan.copies) == (1, ())
    assert drive.planner.stats(0.0).running == 2
    drive.planner.cancel(Cancel(2), 0.0)
    drive.admit(3, (*range(9), 50, 51), 2)
    drive.finish()
    assert drive.tokens[3] == drive.truth(3)


def test_without_a_cache_ended_sequences_leave_only_free_pages(new_drive):
    drive = new_drive(prefix_cache=False)
    for request in range(2):
        drive.admit(request, (*range(20),), 3)
        drive.finish()
    stats = drive.planner.stats(0.0)
    assert stats.pages_free == stats.pages_total
    assert stats.prefix_hit_tokens == 0
