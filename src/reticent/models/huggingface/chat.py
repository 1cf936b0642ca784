"""A local chat model asked as its users ask it: every prompt is a user's message in its chat template."""

import copy
from collections.abc import Sequence

from reticent.core.errors import ModelError
from reticent.core.model import CHAT_OPENING
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.models.huggingface.model import HuggingFaceModel


def with_chat_template(model: HuggingFaceModel) -> HuggingFaceModel:
    """A copy that shares the weights, and whose `complete` answers messages; tokens and scores stay as they are."""
    tokenizer = model.tokenizer
    if not getattr(tokenizer, "chat_template", None):
        raise ModelError(f"'{model.name}' has no chat template", hint="leave --chat out")
    start = tokenizer.bos_token or ""

    def message(prompt: str) -> str:
        said = [{"role": "user", "content": prompt or CHAT_OPENING}]
        text = str(tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False))
        return text.removeprefix(start)  # which the model puts in front of every sequence itself

    def complete(
        prompts: Sequence[str], sampling: Sampling, *, count: int, randomness: Randomness
    ) -> list[list[str]]:
        return model.complete([message(each) for each in prompts], sampling, count=count, randomness=randomness)

    copied = copy.copy(model)
    copied.complete = complete  # type: ignore[method-assign]
    return copied
