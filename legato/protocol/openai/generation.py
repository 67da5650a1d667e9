"""What a request body comes down to, whichever protocol it was written in."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from ..errors import InvalidRequest
from ..requests import Conversation, FinishReason, Prompt
from ..sampling import SamplingParams, within
from .document import Wire
from .scheduling import Terms

MAX_N = 16
MAX_CHOICES = 128
MAX_TENANT = 256


class StreamOptions(Wire, kw_only=True):
    """``stream_options``."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """A request, read and checked.

    Args:
        prompts: For the engine, at least one.
        params: For the engine.
        n: Answers to each prompt.
        terms: For the engine.
        tenant: Who asks, as the client names it.
        model: The model's name, or "" where the client gave none.
        stream: Answer in pieces.
        include_usage: Tell the usage at a stream's end.
        echo: Repeat each prompt before its answers.
        silent: Answers are to be empty; the engine makes one token all the same.
        names: The engine's field names to those the client wrote, where they differ.
    """

    prompts: tuple[Prompt, ...]
    params: SamplingParams
    n: int = 1
    terms: Terms = Terms()
    tenant: str = ""
    model: str = ""
    stream: bool = False
    include_usage: bool = False
    echo: bool = False
    silent: bool = False
    names: dict[str, str] = {}

    @property
    def num_choices(self) -> int:
        """Answers to all prompts."""
        return len(self.prompts) * self.n

    @property
    def has_tools(self) -> bool:
        """Whether answers may hold calls."""
        return any(isinstance(prompt, Conversation) for prompt in self.prompts)

    def choices(self) -> Iterator[tuple[Prompt, SamplingParams]]:
        """What to ask the engine, in the order of the choices' indices.

        The seed of a prompt's choice ``i`` is ``i`` more than the request's, so that
        each can be had again alone. Without a seed the engine draws one for each.
        """
        params = [shifted(self.params, number) for number in range(self.n)]
        for prompt in self.prompts:
            for one in params:
                yield prompt, one

    def of_tenant(self, tenant: str) -> "Generation":
        """The same request on a tenant's account; "" leaves it to the client."""
        return msgspec.structs.replace(self, tenant=tenant) if tenant else self


FINISH: dict[FinishReason, Literal["stop", "length"]] = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
}


def shifted(params: SamplingParams, number: int) -> SamplingParams:
    """The parameters of a prompt's choice: their seed goes on from the request's."""
    if params.seed is None or not number:
        return params
    seed = params.seed + number
    if seed >= 2**64:
        seed -= 2**64
    return msgspec.structs.replace(params, seed=seed)


def read_n(n: int | None, num_prompts: int = 1) -> int:
    """Read how many answers each prompt gets.

    Raises:
        InvalidRequest: Out of range, or too many answers in all.
    """
    if n is None:
        n = 1
    within(n, "n", 1, MAX_N)
    if n * num_prompts > MAX_CHOICES:
        raise InvalidRequest(
            f"{num_prompts} prompts with {n} answers each are more than the "
            f"{MAX_CHOICES} answers a request may ask for; send several requests",
            field="prompt",
        )
    return n


def read_tenant(user: str | None, safety_identifier: str | None = None) -> str:
    """Read who asks, as the client names it.

    Raises:
        InvalidRequest: A name that is too long to keep accounts by.
    """
    for field, name in (("user", user), ("safety_identifier", safety_identifier)):
        if name and len(name) > MAX_TENANT:
            raise InvalidRequest(
                f"must have at most {MAX_TENANT} characters, got {len(name)}",
                field=field,
            )
    return user or safety_identifier or ""
