from typing import Any

import pytest
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError, UndefinedError

from legato.actors.text.sandbox import Sandbox, TemplateBound, TemplateRefusal


def render(source: str, **names: Any) -> str:
    sandbox = Sandbox(max_steps=100_000, max_characters=1_000_000)
    sandbox.refill()
    return sandbox.from_string(source).render(**names)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}"
        "{% macro g() %}{% for i in range(900) %}{{ h() }}{% endfor %}{% endmacro %}"
        "{% macro h() %}{% for i in range(900) %}{{ k() }}{% endfor %}{% endmacro %}"
        "{% macro k() %}{% for i in range(900) %}{% endfor %}{% endmacro %}{{ g() }}",
        "{% for a in text %}{% for b in text %}{% endfor %}{% endfor %}",
        "{% for a in text|map('upper') %}{% for b in text|list %}{% endfor %}"
        "{% endfor %}",
    ],
)
def test_endless_work_is_stopped(source: str):
    with pytest.raises(TemplateBound, match="steps"):
        render(source, text="x" * 2_000)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 100000000000 }}",
        "{{ 100000000000 * [1] }}",
        "{{ 10 ** 100000 }}",
        "{% set n = namespace(x=7) %}"
        "{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{% set n = namespace(x='xx') %}"
        "{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x='xx') %}"
        "{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
    ],
)
def test_nothing_grows_beyond_its_bound(source: str):
    with pytest.raises(TemplateBound):
        render(source)


def test_a_budget_is_for_one_rendering():
    sandbox = Sandbox(max_steps=10_000)
    template = sandbox.from_string("{% for i in range(9000) %}{% endfor %}ok")
    for _ in range(20):
        sandbox.refill()
        assert template.render() == "ok"


def test_ordinary_arithmetic_and_loops_are_as_jinja_has_them():
    source = (
        "{% for x in xs if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x * 2 }}"
        "{{ ',' if not loop.last }}{% endfor %} "
        "{{ 'ab' * 2 ~ (3 ** 2) }} {{ [1] + [2] }}"
        "{% for n in tree recursive %}({{ n.v }}{{ loop(n.c) }}){% endfor %}"
        "{% for x in missing %}never{% else %} none{% endfor %}"
    )
    tree = [{"v": 1, "c": [{"v": 2, "c": []}]}]
    text = render(source, xs=[1, 2, 3], tree=tree)
    assert text == "1/2:4,2/2:6 abab9 [1, 2](1(2)) none"


def test_loop_controls_and_generation_blocks_work():
    source = (
        "{% for x in 'abc' %}{% if x == 'b' %}{% continue %}{% endif %}{{ x }}"
        "{% endfor %}{% generation %}<{{ y }}>{% endgeneration %}!"
    )
    assert render(source, y=1) == "ac<1>!"


def test_block_tags_take_their_line_with_them():
    assert render("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc"


def test_json_is_written_without_html_escapes():
    source = "{{ x|tojson }} {{ x|tojson(indent=1) }}"
    assert render(source, x={"a": "<é>"}) == '{"a": "<é>"} {\n "a": "<é>"\n}'


def test_a_template_can_refuse_and_tell_the_time():
    with pytest.raises(TemplateRefusal, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")
    assert render("{{ strftime_now('%%')}}") == "%"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ xs.append(1) }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% for i in range(10000000) %}{% endfor %}",
    ],
)
def test_the_machine_is_out_of_reach(source: str):
    with pytest.raises((SecurityError, UndefinedError, OverflowError)):
        render(source, xs=[])


def test_every_bound_is_a_template_error():
    assert issubclass(TemplateBound, TemplateError)
    assert issubclass(TemplateRefusal, TemplateError)
