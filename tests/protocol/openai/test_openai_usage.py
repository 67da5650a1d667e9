"""What several answers took together."""

from legato.protocol.openai.usage import joint_usage
from legato.protocol.requests import Usage


def test_one_answer_took_what_it_took():
    assert joint_usage([Usage(5, 3, 2)], 1) == Usage(5, 3, 2)


def test_answers_to_one_prompt_share_it():
    usages = [Usage(5, 3, 0), Usage(5, 4, 4), Usage(5, 1, 4)]
    assert joint_usage(usages, 3) == Usage(5, 8, 0)


def test_prompts_add_up():
    usages = [Usage(5, 1, 4), Usage(5, 1, 1), Usage(7, 1, 6), Usage(7, 1, 2)]
    assert joint_usage(usages, 2) == Usage(12, 4, 3)
