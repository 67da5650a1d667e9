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
    return Router({("/a", "GET"): handler, ("/a", "POST"): handler}, show)


def test_a_known_path_and_method_is_found(router):
    assert router.find("/a", "POST") == ("/a", handler)
    assert router.find("/a", "HEAD") == ("/a", handler)
    assert router.find("/v1/models/some/name", "GET")[0] == "/v1/models/{name}"


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/b", "GET", 404),
        ("/a/", "GET", 404),
        ("/a", "PUT", 405),
        ("/v1/models/", "GET", 404),
        ("/v1/models/x", "DELETE", 405),
    ],
)
def test_anything_else_is_refused(router, path, method, status):
    with pytest.raises(Refusal) as caught:
        router.find(path, method)
    assert caught.value.status == status


def test_the_methods_of_a_path_are_told(router):
    assert router.methods("/a") == "GET, POST"


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
