"""Spoiled bodies for every endpoint: an answer or an error in shape."""

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from legato.serve.openapi import OPERATIONS

from .conftest import KEY
from .mutations import spoiled
from .seeds import ALIASES, ENDPOINTS
from .shapes import check_answer, check_refusal

pytestmark = pytest.mark.slow
many = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_every_endpoint_that_takes_a_body_is_here():
    assert set(ENDPOINTS) == {one.path for one in OPERATIONS if one.takes is not None}


@pytest.fixture(scope="module")
def client(live):
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    with httpx.Client(base_url=live.url, headers=headers, timeout=20) as client:
        yield client


@many
@given(data=st.data())
@pytest.mark.parametrize("path", sorted(set(ENDPOINTS) - ALIASES))
def test_a_spoiled_body_is_answered_or_refused_in_shape(watched, client, path, data):
    fields, seeds = ENDPOINTS[path]
    answer = client.post(path, content=data.draw(spoiled(seeds, fields)))
    content_type = answer.headers.get("content-type", "")
    check_answer(answer.status_code, content_type, answer.content)
    if path == "/admin/batching":
        # Else the next requests would wait for a batch to fill.
        client.post(path, json={"type": "continuous"}).raise_for_status()


odd_headers = st.dictionaries(
    st.sampled_from(
        ["accept", "content-type", "content-encoding", "expect", "origin", "host"]
    ),
    st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=20),
    max_size=3,
)
paths = st.sampled_from([one.path for one in OPERATIONS if "trace" not in one.path])
odd_paths = st.text(
    st.characters(codec="ascii", exclude_characters="\x00\r\n?#"), max_size=9
).map(lambda text: f"/v1/{text}")


@many
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "ODD"]),
    path=paths | odd_paths,
    headers=odd_headers,
)
def test_any_method_path_and_header_is_answered_in_shape(
    watched, client, method, path, headers
):
    raw = [(k.encode(), v.strip().encode("latin-1")) for k, v in headers.items()]
    try:
        request = client.build_request(method, path, headers=raw)
    except (httpx.InvalidURL, ValueError):
        return
    answer = client.send(request)
    assert answer.status_code != 500
    if answer.status_code >= 400 and method != "HEAD":
        check_refusal(answer.status_code, answer.content)
