"""Turn text into a dataclass: the model can write nothing but JSON of that form.

The schema is what pydantic's `model_json_schema()` or `msgspec.json.schema` give for a
class; here the latter. An answer cut by `max_tokens` is incomplete, and says so.

    python examples/structured_output.py      # or: … fake, a .gguf file, a directory
"""

import asyncio
import sys

import msgspec

from legato import ChatMessage, Engine, FinishReason, Grammar


class Event(msgspec.Struct, forbid_unknown_fields=True):
    """What was announced."""

    title: str
    weekday: str
    people: list[str]


QUESTION = "Alice and Bob go to a science fair on Friday. Write the event as JSON."


async def main(model: str) -> None:
    grammar = Grammar.json_schema(msgspec.json.schema(Event))
    async with Engine(model) as engine:
        params = engine.params(temperature=0, max_tokens=200, grammar=grammar)
        ask = [ChatMessage("user", QUESTION)]
        async with engine.stream(ask, params) as stream:
            answer = await stream.collect()
        print(answer.text)
        if answer.finish_reason is FinishReason.LENGTH:
            print("the answer was cut: no event")
        else:
            print(msgspec.json.decode(answer.text, type=Event))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "smollm2"))
