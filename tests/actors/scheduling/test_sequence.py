"""What a sequence knows of itself."""

from legato.actors.scheduling.sequence import Sequence
from legato.actors.scheduling.tenants import Share
from legato.protocol.requests import Admit, Usage
from legato.protocol.steps import RowSampling


def sequence(**fields) -> Sequence:
    sampling = RowSampling(0.0, ends=(7,), min_tokens=2, **fields.pop("sampling", {}))
    admit = Admit(0, (1, 2, 3), 5, sampling, **fields)
    return Sequence(admit, 0, 0.0, Share("t"))


def test_emitted_tokens_count_as_output():
    resumed = sequence(emitted=(8, 9))
    assert resumed.tokens == [1, 2, 3, 8, 9]
    assert resumed.usage == Usage(3, 2, 0)
    assert resumed.remaining == 5
    assert resumed.left == 3


def test_ends_count_from_min_tokens_on_and_stops_always():
    plain = sequence(stop_token_ids=(9,))
    assert not plain.is_ending(7, 1)
    assert plain.is_ending(7, 2)
    assert plain.is_ending(9, 0)
    assert not sequence(ignore_eos=True).is_ending(7, 2)


def test_only_penalties_need_the_history():
    assert not sequence().needs_history
    for name in ("presence_penalty", "frequency_penalty", "repetition_penalty"):
        assert sequence(sampling={name: 0.5}).needs_history
