"""Paths and their handlers."""

import pytest

from legato.protocol.openai.refusal import Refusal
from legato.serve.router import Router, path_of


async def handler(_exchange):
    raise AssertionError("not called here")


async def show(_exchange, _name):
    raise AssertionError("not called here")


@pytest.fixture
def router():
    named = {
        ("/v1/models/{name}", "GET"): show,
        ("/v1/models/{name}/use", "POST"): show,
    }
    return Router({("/a", "GET"): handler, ("/a", "POST"): handler}, named)


def test_a_known_path_and_method_is_found(router):
    assert router.find("/a", "POST") == ("/a", handler)
    assert router.find("/a", "HEAD") == ("/a", handler)


@pytest.mark.anyio
async def test_a_name_in_a_path_is_told_to_its_handler():
    told = []

    async def take(exchange, name):
        told.append((exchange, name))

    router = Router({}, {("/x/{id}/y", "GET"): take, ("/x/{id}", "GET"): take})
    for path, route in [
        ("/x/1", "/x/{id}"),
        ("/x/1/2", "/x/{id}"),
        ("/x/1/2/y", "/x/{id}/y"),
        ("/x/y", "/x/{id}"),
    ]:
        found, serve = router.find(path, "GET")
        assert found == route
        await serve("exchange")
    assert [name for _, name in told] == ["1", "1/2", "1/2", "y"]
    assert router.routes() == {("/x/{id}", "GET"), ("/x/{id}/y", "GET")}


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/b", "GET", 404),
        ("/a/", "GET", 404),
        ("/a", "PUT", 405),
        ("/v1/models/", "GET", 404),
        ("/v1/models/x", "DELETE", 405),
        ("/v1/models/x/use", "GET", 405),
    ],
)
def test_anything_else_is_refused(router, path, method, status):
    with pytest.raises(Refusal) as caught:
        router.find(path, method)
    assert caught.value.status == status


def test_the_methods_of_a_path_are_told(router):
    assert router.methods("/a") == "GET, POST"
    assert router.methods("/v1/models/x/use") == "POST"


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [
        ("/v1", "", "/v1"),
        ("/llm/v1", "/llm", "/v1"),
        ("/llm/v1", "/llm/", "/v1"),
        ("/llm", "/llm", "/"),
        ("/llmv1", "/llm", "/llmv1"),
        ("/v1", "/llm", "/v1"),
    ],
)
def test_the_mount_point_is_no_part_of_the_path(path, root, below):
    assert path_of({"path": path, "root_path": root}) == below
