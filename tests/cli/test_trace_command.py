"""``legato trace`` against a server that answers by script."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from legato.cli import main

TRACE = b'{"traceEvents":[]}'


class Scripted(HTTPServer):
    """Remembers what it was asked."""

    status = 200
    body = TRACE
    asked: tuple[str, str, str | None] | None = None


class Handler(BaseHTTPRequestHandler):
    server: Scripted  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        key = self.headers.get("authorization")
        self.server.asked = (self.command, self.path, key)
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(server: Scripted, *args: str) -> Result:
    url = f"http://127.0.0.1:{server.server_port}/"
    return CliRunner().invoke(main, ["trace", "--url", url, *args])


def test_the_trace_is_written_where_asked(server: Scripted, tmp_path: Path):
    path = tmp_path / "out.json"
    ran = run(server, "--seconds", "0.5", "-o", str(path), "--api-key", "secret")
    assert ran.exit_code == 0
    assert path.read_bytes() == TRACE
    assert ran.stderr == f"{path}: 18 bytes; open it at https://ui.perfetto.dev\n"
    assert ran.stdout == ""
    assert server.asked == ("POST", "/debug/trace?seconds=0.5", "Bearer secret")


def test_the_trace_goes_to_standard_output_and_nothing_else(server: Scripted):
    ran = run(server, "-o", "-")
    assert ran.stdout_bytes == TRACE
    assert ran.stderr == ""
    assert server.asked == ("POST", "/debug/trace?seconds=5", None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"another trace is being recorded"}}', "another trace"),
        (b"<html>", "429"),
    ],
)
def test_a_refusal_is_one_clear_line_and_no_file(
    server: Scripted, tmp_path: Path, body: bytes, message: str
):
    server.status, server.body = 429, body
    path = tmp_path / "out.json"
    ran = run(server, "-o", str(path))
    assert ran.exit_code == 1
    assert message in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert not path.exists()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "ftp://example.com", "here"])
def test_an_address_without_a_server_is_one_clear_line(url: str, tmp_path: Path):
    path = tmp_path / "out.json"
    ran = CliRunner().invoke(main, ["trace", "--url", url, "-o", str(path)])
    assert ran.exit_code == 2
    assert len(ran.stderr.splitlines()) == 1
    assert "urlopen" not in ran.stderr
    assert not path.exists()


def test_it_helps_with_examples():
    ran = CliRunner().invoke(main, ["trace", "--help"])
    assert "legato trace" in ran.output
    assert "perfetto" in ran.output
