"""Which pages may speak to the server."""

import pytest

from legato.serve.origin import OriginList


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "http://localhost",
        "http://localhost:3000",
        "https://127.0.0.1:8443",
        "http://[::1]:5173",
        "http://app.localhost:8080",
    ],
)
def test_programs_and_pages_of_this_machine_may(origin):
    assert OriginList(()).admits(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "http://localhost@evil.example",
        "http://evil.example@localhost",
        "file://",
        "null",
        "",
        "http://[::1",
        "chrome-extension://localhost",
    ],
)
def test_every_other_page_may_not(origin):
    assert not OriginList(()).admits(origin)


def test_listed_pages_may_whatever_the_case():
    origins = OriginList(("https://Chat.example/",))
    assert origins.admits("https://chat.example")
    assert not origins.admits("http://chat.example")
    assert not origins.admits("https://chat.example:8443")


def test_localhost_can_be_shut_out_and_a_star_lets_all_in():
    assert not OriginList((), allow_localhost=False).admits("http://localhost")
    assert OriginList(("*",)).admits("https://evil.example")
