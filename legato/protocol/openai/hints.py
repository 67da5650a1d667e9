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
    "grammar": f"{_FORM} says what form an answer has",
    "json_schema": f"{_FORM} of type json_schema does that",
    "n_predict": "max_tokens (max_output_tokens in the Responses API) bounds it",
    "max_tokens": "max_output_tokens bounds an answer in this protocol",
    "max_completion_tokens": "max_output_tokens bounds an answer in this protocol",
    "messages": "chat completions take it; the Responses API has input",
    "response_format": "chat completions take it; the Responses API has text.format",
    "response": "in this protocol its fields stand in the frame itself",
    "chat_template_kwargs": "the chat template is the model's own",
    "add_generation_prompt": "it always is",
    "cache_prompt": "prompts are always cached",
}
