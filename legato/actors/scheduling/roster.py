"""The roster: every live sequence, in exactly one home.

A sequence's home follows from its own state; ``place`` works it out, so that no caller
has to know the rules of another.
"""

from .decodes import Decodes
from .sequence import Home, Sequence
from .tenants import Tenants
from .waiting import WaitingRoom

Members = dict[Sequence, None]


class Roster:
    """Homes of the live sequences.

    Args:
        patience_s: Of the waiting rooms.
    """

    def __init__(self, patience_s: float) -> None:
        self.tenants = Tenants()
        self.live: dict[int, Sequence] = {}
        self.fresh = WaitingRoom(self.tenants, patience_s)
        self.resuming = WaitingRoom(self.tenants, patience_s)
        self.following: Members = {}
        self.draining: Members = {}
        self.parked: Members = {}
        self.holding: Members = {}
        self.prefill: Members = {}
        self.decode = Decodes()
        self.finishing: Members = {}
        self._members = {
            Home.FOLLOWING: self.following,
            Home.DRAINING: self.draining,
            Home.PARKED: self.parked,
            Home.HOLDING: self.holding,
            Home.PREFILL: self.prefill,
            Home.FINISHING: self.finishing,
        }
        self.num_unstarted = 0
        self.unstarted_tokens = 0

    def enter(self, sequence: Sequence) -> None:
        """Take a new sequence in."""
        self.live[sequence.request] = sequence
        self.num_unstarted += 1
        self.unstarted_tokens += len(sequence.tokens)
        self.place(sequence)

    def start(self, sequence: Sequence) -> None:
        """Count a sequence's first start."""
        if not sequence.started:
            sequence.started = True
            self.num_unstarted -= 1
            # Before its first start a sequence has the tokens it came with.
            self.unstarted_tokens -= len(sequence.tokens)

    def leave(self, sequence: Sequence) -> None:
        """Let an ended sequence go; its home was taken before."""
        self.start(sequence)
        self.charge(sequence)
        sequence.home = Home.ENDED
        self.tenants.leave(sequence.share)
        del self.live[sequence.request]

    def charge(self, sequence: Sequence) -> None:
        """Charge a tenant for the output that it was not charged for yet."""
        output = len(sequence.tokens) - sequence.prompt_tokens
        self.tenants.charge(sequence.share, output - sequence.charged)
        sequence.charged = output

    def place(self, sequence: Sequence) -> None:
        """Put a sequence where its state says it belongs."""
        self.put(sequence, _home(sequence))

    def put(self, sequence: Sequence, home: Home) -> None:
        """Put a sequence in a home."""
        sequence.home = home
        if home is Home.FRESH:
            self.fresh.add(sequence)
        elif home is Home.RESUMING:
            self.resuming.add(sequence)
        elif home is Home.DECODE:
            self.decode.add(sequence)
        else:
            self._members[home][sequence] = None

    def take(self, sequence: Sequence) -> None:
        """Take a sequence out of its home."""
        if sequence.home is Home.FRESH:
            self.fresh.remove(sequence)
        elif sequence.home is Home.RESUMING:
            self.resuming.remove(sequence)
        elif sequence.home is Home.DECODE:
            self.decode.remove(sequence)
        else:
            del self._members[sequence.home][sequence]

    def move(self, sequence: Sequence) -> None:
        """Take a sequence out and place it anew."""
        self.take(sequence)
        self.place(sequence)

    @property
    def num_running(self) -> int:
        """Sequences that hold a slot and are not paused."""
        return len(self.prefill) + len(self.decode) + len(self.finishing)

    @property
    def num_unfinished(self) -> int:
        """Sequences that were started and will go on by themselves."""
        return self.num_running + len(self.resuming) + len(self.draining)


def _home(sequence: Sequence) -> Home:
    if sequence.slot is None:
        if sequence.is_in_flight:
            return Home.DRAINING
        if sequence.paused:
            return Home.PARKED
        return Home.RESUMING if sequence.started else Home.FRESH
    if sequence.left == 0:
        return Home.FINISHING
    if sequence.paused:
        return Home.HOLDING
    return Home.DECODE if sequence.fed else Home.PREFILL
