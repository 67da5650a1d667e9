"""LangChain's chat model, as its users have it: invoke, stream, batch, errors.

It pins its own clients, so it lives in an environment of its own:
``tests/conformance/run``.
"""

import asyncio

import pytest

langchain_openai = pytest.importorskip(
    "langchain_openai", reason="langchain is not installed: run tests/conformance/run"
)

from langchain_core.messages import HumanMessage, SystemMessage  # noqa: E402

ANSWER = "Hello, wörld 🌍!"
TOKENS = len(ANSWER.encode()) + 1
ASK = [SystemMessage("Be brief."), HumanMessage("hi")]


@pytest.fixture
def model(url):
    # Its own name for the limit is max_completion_tokens.
    return langchain_openai.ChatOpenAI(
        model="fake",
        base_url=f"{url}/v1",
        api_key="sk-right",
        max_retries=0,
        stream_usage=True,
        use_responses_api=False,
    )


def test_a_message_is_answered_with_its_usage(model):
    answer = model.invoke(ASK)
    assert answer.content == ANSWER
    assert answer.response_metadata["finish_reason"] == "stop"
    assert answer.usage_metadata["output_tokens"] == TOKENS


def test_a_stream_adds_up_to_the_answer(model):
    chunks = list(model.stream(ASK))
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    assert total.content == ANSWER
    assert total.response_metadata["finish_reason"] == "stop"
    assert total.usage_metadata["output_tokens"] == TOKENS


def test_a_batch_is_answered_in_order(model):
    answers = model.batch([[HumanMessage(text)] for text in ("a", "b", "c")])
    assert [answer.content for answer in answers] == [ANSWER] * 3


def test_an_async_reader_may_leave_early(model):
    async def main():
        async for chunk in model.astream(ASK):
            if chunk.content:
                break
        return await model.ainvoke(ASK)

    assert asyncio.run(main()).content == ANSWER


def test_options_reach_the_server(model):
    short = model.bind(max_tokens=5, stop=["zz"], temperature=0.5, seed=3)
    answer = short.invoke(ASK)
    assert answer.content == "Hello"
    assert answer.response_metadata["finish_reason"] == "length"


def test_log_probabilities_come_through(model):
    answer = model.bind(logprobs=True, top_logprobs=1, max_tokens=2).invoke(ASK)
    tokens = [one["token"] for one in answer.response_metadata["logprobs"]["content"]]
    assert tokens == ["H", "e"]


def test_an_error_is_raised_with_the_servers_words(model):
    with pytest.raises(Exception, match="temperature") as caught:
        model.bind(temperature=-1).invoke(ASK)
    assert caught.value.status_code == 400
