"""Chat templates, ordinary and hostile: rendered as transformers does, ended when they take too long."""

import time

import pytest

from reticent.server.refusal import Refusal
from reticent.server.requests.chat import ChatFormat, Renderer
from reticent.server.requests.protocol import Message
from tests.models.tiny import tiny_tokenizer
from tests.patience import PATIENCE

TURNS = [{"role": "user", "content": "hi {{ 7 * 7 }}"}, {"role": "assistant", "content": "é"}]
PLAIN = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m.content | trim }}{% generation %}!{% endgeneration %}\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{{ messages | tojson }}"
)
HOSTILE = {
    "never ends": "{% for i in range(99999) %}{% for j in range(99999) %}{% set x = i %}{% endfor %}{% endfor %}",
    "fills the memory": "{{ 'x' * 9999999999 }}",
    "pads": "{{ 'x' | center(9999999999) }}",
    "says too much": "{% for i in range(99999) %}{{ 'x' * 100 }}{% endfor %}",
    "leaves the sandbox": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "raises": "{{ raise_exception('no') }}",
}


@pytest.fixture(scope="module")
def renderer():
    made = Renderer(seconds=1.0, longest=10_000)
    assert made.render("ready", {}) == "ready"  # from here on nothing waits for the process to start
    yield made
    made.close()


def test_an_ordinary_template_gives_what_transformers_gives():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = PLAIN
    chat = ChatFormat(tokenizer)
    try:
        found = chat.text([Message(**turn) for turn in TURNS])
    finally:
        chat.close()
    assert found == tokenizer.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True)


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_template_is_ended_and_the_next_one_is_rendered(renderer, name):
    begun = time.monotonic()
    assert renderer.render(HOSTILE[name], {"messages": TURNS}) is None
    assert time.monotonic() - begun < PATIENCE
    assert renderer.render("{{ messages | length }}", {"messages": TURNS}) == "2"


def test_a_template_that_fails_is_a_refusal_with_a_reason():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = HOSTILE["raises"]
    chat = ChatFormat(tokenizer)
    try:
        with pytest.raises(Refusal, match="chat template"):
            chat.text([Message(**TURNS[0])])
    finally:
        chat.close()
