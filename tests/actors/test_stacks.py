"""What is written down of threads that hang."""

import os
import threading

from legato.actors.stacks import open_stacks, own_stacks, read_stacks


def test_every_thread_is_told_by_name_with_where_it_stands():
    held, inside = threading.Event(), threading.Event()

    def hang_here() -> None:
        inside.set()
        held.wait()

    thread = threading.Thread(target=hang_here, name="legato-device")
    thread.start()
    inside.wait()
    try:
        text = own_stacks()
    finally:
        held.set()
        thread.join()
    number = f"0x{thread.ident:016x}"
    assert f"Thread {number} legato-device" in text
    assert "hang_here" in text
    assert "test_every_thread_is_told" in text


def test_nothing_written_reads_as_nothing():
    with open_stacks() as file:
        assert read_stacks(file) == ""


def test_where_there_is_no_file_in_memory_a_nameless_one_does(monkeypatch):
    def refused(name: str) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "memfd_create", refused, raising=False)
    with open_stacks() as file:
        file.write(b"here")
        assert read_stacks(file) == "here"
