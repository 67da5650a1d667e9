"""A response's input, listed."""

from legato.protocol.openai.input_listing import listed, page_of


def test_text_is_listed_as_a_message_with_an_id():
    (item,) = listed("hi")
    assert item["id"].startswith("msg_")
    assert (item["type"], item["role"], item["status"]) == (
        "message",
        "user",
        "completed",
    )
    assert item["content"] == [{"type": "input_text", "text": "hi"}]


def test_an_items_own_id_and_parts_stay():
    part = {"type": "input_text", "text": "x"}
    (item,) = listed([{"id": "msg_7", "role": "user", "content": [part]}])
    assert (item["id"], item["content"]) == ("msg_7", [part])
    (answer,) = listed([{"role": "assistant", "content": "y"}])
    assert answer["content"][0]["type"] == "output_text"


def test_calls_and_what_they_gave_are_listed_with_ids():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "c", "output": "9", "id": None}
    first, second = listed([call, given])
    assert first == {**call, "id": first["id"], "status": "completed"}
    assert second == {**given, "id": second["id"], "status": "completed"}
    assert first["id"].startswith("fc_")
    assert second["id"].startswith("fco_")
    assert listed([{**call, "id": "fc_1", "status": "incomplete"}]) == (
        {**call, "id": "fc_1", "status": "incomplete"},
    )


def test_pages_follow_one_another_in_both_orders():
    items = tuple({"id": str(n)} for n in range(5))
    page = page_of(items, after=None, limit=2, newest_first=True)
    assert [one["id"] for one in page["data"]] == ["4", "3"]
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("4", "3", True)
    page = page_of(items, after="3", limit=9, newest_first=True)
    assert [one["id"] for one in page["data"]] == ["2", "1", "0"]
    assert page["has_more"] is False
    page = page_of(items, after="4", limit=9, newest_first=False)
    assert (page["data"], page["first_id"]) == ([], "")
