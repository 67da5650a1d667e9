import asyncio

import pytest

from legato.actors.restarts import RestartLimit
from legato.actors.supervisor import Supervisor
from legato.protocol.errors import EngineFailed


class Flaky:
    """An actor that fails so many times, then works."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.runs = 0
        self.works = asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        self.runs += 1
        if self.failures:
            self.failures -= 1
            raise ValueError("out of tune")
        self.works.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


def test_a_failed_actor_is_restarted_alone():
    async def main() -> None:
        supervisor = Supervisor(RestartLimit(3))
        flaky, steady = Flaky(2), Flaky(0)
        supervisor.start("flaky", flaky.run)
        supervisor.start("steady", steady.run)
        await flaky.works.wait()
        assert flaky.runs == 3
        assert steady.runs == 1
        await supervisor.stop()
        assert flaky.ended
        assert steady.ended

    asyncio.run(main())


def test_past_the_limit_the_failure_goes_up_with_its_cause():
    async def main() -> None:
        supervisor = Supervisor(RestartLimit(2))
        supervisor.start("flaky", Flaky(5).run)
        with pytest.raises(EngineFailed, match="'flaky': ValueError: out of tune") as e:
            await supervisor.wait()
        assert isinstance(e.value.__cause__, ValueError)
        await supervisor.stop()

    asyncio.run(main())


def test_actors_end_in_the_reverse_order_of_starting():
    async def main() -> None:
        ended: list[str] = []

        def actor(name: str):
            async def run() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(name)

            return run

        supervisor = Supervisor(RestartLimit())
        for name in ("first", "second", "third"):
            supervisor.start(name, actor(name))
        await asyncio.sleep(0)
        await supervisor.stop()
        assert ended == ["third", "second", "first"]

    asyncio.run(main())
