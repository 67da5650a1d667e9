import json
from typing import Any

import pytest
from click.testing import CliRunner

from legato.cli import main
from legato.gpu import machine
from legato.gpu.machine import Change, Finding, Outlook, Survey

CPU = Outlook(
    device="cpu", name="Some CPU", dtype="int8", attention="native", native=True
)


def surveyed(torch: Any, *outlooks: Outlook) -> Survey:
    return Survey(
        version="1",
        python="3",
        system="Linux",
        findings=(
            Finding(name="torch", state=torch, text="2.13"),
            Finding(name="packages", state="ok", text="all"),
        ),
        outlooks=outlooks,
        changes=(Change(why="a compiler", command="apt install g++"),),
    )


@pytest.fixture
def on_a_machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda found: monkeypatch.setattr(machine, "survey", lambda: found)


def test_a_person_reads_lines(on_a_machine: Any) -> None:
    on_a_machine(surveyed("ok", CPU))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0
    assert "+ torch         2.13" in result.output
    assert "  cpu: dtype int8, attention native, native kernels (Some CPU)" in (
        result.output
    )
    assert "device auto is cpu" in result.output
    assert result.output.endswith("For more:\n  a compiler\n    apt install g++\n")


def test_a_script_reads_one_json_document(on_a_machine: Any) -> None:
    on_a_machine(surveyed("ok", CPU))
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 0
    said = json.loads(result.output)
    assert said["outlooks"][0]["dtype"] == "int8"
    assert said["findings"][0]["name"] == "torch"


def test_the_exit_status_is_1_only_where_no_model_can_run(on_a_machine: Any) -> None:
    on_a_machine(surveyed("broken"))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert "! torch" in result.output
    assert "no model, only --model fake" in result.output


@pytest.mark.slow
def test_this_machine_can_be_looked_at() -> None:
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == 0
    said = json.loads(result.output)
    states = {one["name"]: one["state"] for one in said["findings"]}
    assert states["torch"] == states["processor"] == states["packages"] == "ok"
    assert said["outlooks"]
