"""What to write instead of fields that clients of other servers know.

A field that is not supported is refused by name; where something here serves its
purpose, the refusal says what.
"""

_FORM = "response_format (text.format in the Responses API)"

HINTS: dict[str, str] = {
    "guided_json": f"{_FORM} of type json_schema does that",
    "guided_choice": f"{_FORM} of type json_schema, with an enum, does that",
    "guided_regex": f"{_FORM} of type json_schema, with a pattern, does that",
    "guided_grammar": f"{_FORM} says what form an answer has",
    "structured_outputs": f"{_FORM} of type json_schema does that",
    "conversation": "previous_response_id goes on from a response",
    "reasoning_effort": "this model does not reason",
    "effort": "this model does not reason",
    "functions": "tools has them",
    "function_call": "tool_choice has it",
}
