"""A local chat model: prompts are messages of its template, and nothing else changes."""

import pytest

from reticent.core.errors import ModelError
from reticent.core.model import CHAT_OPENING
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.models.huggingface.chat import with_chat_template
from reticent.models.huggingface.model import HuggingFaceModel
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}bot:"
GREEDY = Sampling(8, temperature=0.0)


def model(template: str | None) -> HuggingFaceModel:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    return HuggingFaceModel(tiny_gpt2(), tokenizer, name="tiny")


def test_prompts_are_a_users_messages_and_the_start_token_stands_there_once():
    plain = model(TEMPLATE)
    chat = with_chat_template(plain)
    asked = {"": CHAT_OPENING, "hello there": "hello there"}
    source = Randomness.seeded(0)
    said = chat.complete(list(asked), GREEDY, count=1, randomness=source)
    wanted = [f"user: {text}\nbot:" for text in asked.values()]
    assert said == plain.complete(wanted, GREEDY, count=1, randomness=source)
    assert said != plain.complete(list(asked), GREEDY, count=1, randomness=source)  # the model itself is as it was
    tokens = plain.encode(["hello"])
    assert chat.token_log_probs(tokens)[0].tolist() == plain.token_log_probs(tokens)[0].tolist()


def test_a_model_without_a_template_is_no_chat():
    with pytest.raises(ModelError, match="chat template"):
        with_chat_template(model(None))
