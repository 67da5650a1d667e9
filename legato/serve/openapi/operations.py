"""The table of HTTP operations: what each takes and what it answers.

Shapes come from structs, so that the description says what the code reads. A test
holds that the router knows every operation here and none besides.
"""

from collections.abc import Collection, Mapping
from typing import Any

from ...actors.scheduling.batching import Batching
from ...protocol import ai_sdk, tokens
from ...protocol.openai import (
    chat,
    completion,
    messages,
    response_fields,
    response_tools,
)
from . import answers
from .operation import BODY, EVENTS, JSON, WORK, Operation, Parameter
from .response_operations import RESPONSES

Neutral = Mapping[str, Collection[Any]]

WITHOUT_EFFECT: Mapping[type, Neutral] = {
    chat.ChatRequest: chat.NEUTRAL,
    completion.CompletionRequest: completion.NEUTRAL,
    messages.Message: messages.NEUTRAL,
    messages.Part: messages.PART_NEUTRAL,
    response_fields.CreateBody: response_fields.NEUTRAL,
    response_fields.Reasoning: response_fields.REASONING_NEUTRAL,
    response_tools.FlatFunction: response_tools.NEUTRAL,
}
"""Fields that are known and without effect, with the values at which they pass."""

READ_LATER: Mapping[type, Mapping[str, Any]] = {
    response_fields.CreateBody: {"tools": list[response_tools.FlatFunction] | None},
}
"""Fields that are read in two steps, with what the second makes of them."""

MODEL_NAME = Parameter(
    name="name", where="path", schema={"type": "string"}, says="A model's name."
)
TRACE_SECONDS = Parameter(
    name="seconds",
    where="query",
    schema={"type": "number", "exclusiveMinimum": 0, "maximum": 60},
    says="How long to record; 5 if absent.",
)

GENERATING = (
    Operation(
        path="/v1/chat/completions",
        method="POST",
        name="createChatCompletion",
        says="Answer a conversation, whole or as server-sent events.",
        takes=chat.ChatRequest,
        gives={JSON: answers.ChatCompletion, EVENTS: None},
        fails=BODY + WORK,
    ),
    Operation(
        path="/v1/completions",
        method="POST",
        name="createCompletion",
        says="Continue a text, whole or as server-sent events.",
        takes=completion.CompletionRequest,
        gives={JSON: answers.TextCompletion, EVENTS: None},
        fails=BODY + WORK,
    ),
)

CHAT_ID = Parameter(
    name="id", where="path", schema={"type": "string"}, says="The chat's id."
)

CHATTING = tuple(
    operation
    for at, name in (("/v1/chat", "Chat"), ("/api/chat", "UiChat"))
    for operation in (
        Operation(
            path=at,
            method="POST",
            name=f"send{name}",
            says="Take a turn of an AI SDK chat, as a stream of UI messages.",
            takes=ai_sdk.PostBody,
            gives={EVENTS: None},
            fails=BODY + WORK,
        ),
        Operation(
            path=f"{at}/{{id}}/stream",
            method="GET",
            name=f"resume{name}",
            says="Read the answer under way in an AI SDK chat from its beginning.",
            gives={EVENTS: None},
            fails=WORK,
            parameters=(CHAT_ID,),
            may_be_empty=True,
        ),
    )
)

CATALOG = (
    Operation(
        path="/tokenize",
        method="POST",
        name="tokenize",
        says="Encode a text or a conversation.",
        takes=tokens.TokenizeBody,
        gives={JSON: tokens.Tokenized},
        fails=BODY + WORK,
    ),
    Operation(
        path="/detokenize",
        method="POST",
        name="detokenize",
        says="Decode token ids.",
        takes=tokens.DetokenizeBody,
        gives={JSON: tokens.Detokenized},
        fails=BODY + WORK,
    ),
    Operation(
        path="/v1/models",
        method="GET",
        name="listModels",
        says="List the models.",
        gives={JSON: answers.ModelList},
    ),
    Operation(
        path="/v1/models/{name}",
        method="GET",
        name="retrieveModel",
        says="Show a model.",
        gives={JSON: answers.ModelEntry},
        parameters=(MODEL_NAME,),
    ),
)

OWNERS = (
    Operation(
        path="/admin/batching",
        method="GET",
        name="showBatching",
        says="Show the batching strategy in force.",
        gives={JSON: answers.BatchingShown},
        fails=(503,),
        needs_key="always",
    ),
    Operation(
        path="/admin/batching",
        method="POST",
        name="changeBatching",
        says="Change the batching strategy.",
        takes=Batching,
        gives={JSON: answers.BatchingSet},
        fails=(*BODY, 503),
        needs_key="always",
    ),
    Operation(
        path="/metrics",
        method="GET",
        name="readMetrics",
        says="Read the metrics, in Prometheus' text format.",
        gives={"text/plain": None},
    ),
    Operation(
        path="/debug/stats",
        method="GET",
        name="readStats",
        says="Read the engine's figures.",
        gives={JSON: None},
        fails=(503,),
    ),
    Operation(
        path="/debug/trace",
        method="POST",
        name="recordTrace",
        says="Record what every actor does, for Perfetto.",
        gives={JSON: None},
        fails=(400, 429, 503),
        parameters=(TRACE_SECONDS,),
    ),
)

OPEN = (
    Operation(
        path="/health",
        method="GET",
        name="readHealth",
        says="Tell whether the server is ready.",
        gives={JSON: answers.HealthReport},
        fails=(503,),
        needs_key="never",
    ),
    *(
        Operation(
            path="/ping",
            method=method,
            name=f"ping{method.capitalize()}",
            says="Tell the same, as some platforms ask it.",
            gives={JSON: answers.HealthReport},
            fails=(503,),
            needs_key="never",
        )
        for method in ("GET", "POST")
    ),
    Operation(
        path="/version",
        method="GET",
        name="readVersion",
        says="Tell the server's version.",
        gives={JSON: answers.VersionReport},
        needs_key="never",
    ),
    Operation(
        path="/openapi.json",
        method="GET",
        name="describe",
        says="Read this description.",
        gives={JSON: None},
        needs_key="never",
    ),
    *(
        Operation(
            path=path,
            method="GET",
            name=name,
            says="A file of the page that shows the pipeline.",
            gives={kind: None},
            needs_key="never",
        )
        for path, name, kind in (
            ("/debug", "debugPage", "text/html"),
            ("/debug/page.js", "debugScript", "text/javascript"),
            ("/debug/page.css", "debugStyle", "text/css"),
        )
    ),
)

# Without the files that only the page itself asks for, under /playground/.
PLAYGROUND = tuple(
    Operation(
        path=path,
        method="GET",
        name=name,
        says=says,
        gives={kind: None},
        needs_key="never",
    )
    for path, name, kind, says in (
        ("/", "playground", "text/html", "A page to talk with the model."),
        ("/legato.js", "client", "text/javascript", "The JavaScript client."),
        ("/legato.d.ts", "clientTypes", "text/plain", "Its types."),
    )
)

OPERATIONS: tuple[Operation, ...] = (
    *GENERATING,
    *RESPONSES,
    *CHATTING,
    *CATALOG,
    *OWNERS,
    *OPEN,
    *PLAYGROUND,
)
