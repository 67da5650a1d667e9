"""Schemathesis over the published description, against the real server.

For every operation: the edges of every field, and random bodies beyond them. No 500, no
status, media type or shape that is not described, nothing wrong taken for right, and no
way around the key.
"""

import pytest

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: run tests/conformance/run"
)

from hypothesis import HealthCheck, settings  # noqa: E402

KEY = {"Authorization": "Bearer sk-right"}
# A deadline of no time at all is met with 504: the client's wish, not a failure.
LEFT_OUT = [schemathesis.checks.not_a_server_error]
# Rules between fields (top_logprobs needs logprobs, starting_after needs stream, …)
# have no words in a schema, so that not everything that fits it can be served.
LEFT_OUT_OF_RULED = [*LEFT_OUT, schemathesis.checks.positive_data_acceptance]
RULED_PATHS = ("/v1/responses/{id}",)

schema = schemathesis.pytest.from_fixture("description")


@pytest.fixture
def description(url):
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


# A trace takes its seconds; /api/chat is /v1/chat again.
@schema.exclude(path_regex="^(/debug/trace|/api/chat.*)$").parametrize()
@settings(
    derandomize=True,
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_the_server_does_what_it_publishes(case):
    ruled = case.method == "POST" or case.operation.path in RULED_PATHS
    answer = case.call_and_validate(
        headers=KEY,
        excluded_checks=LEFT_OUT_OF_RULED if ruled else LEFT_OUT,
        timeout=20,
    )
    assert answer.status_code != 500
