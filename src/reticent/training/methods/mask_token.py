"""`<MASK>` as one token of a model: the mask of redaction is a word of its own, not a string of brackets.

A model that has the token is left as it is. To another one it is added: one entry of the tokenizer and one row of
the embeddings (two, where input and output are not tied), which starts as the mean of the other rows. Nothing of
this depends on private text, and it comes out the same every time, so that a resumed run finds the same model.
"""

from typing import Any

from reticent.core.errors import ModelError
from reticent.data.redaction.masking import MASK
from reticent.models.huggingface.growth import grow_vocabulary
from reticent.models.huggingface.model import HuggingFaceModel

_BESIDE = (f"a{MASK}", f"a {MASK}.", f"{MASK} {MASK}")


def has_mask_token(model: HuggingFaceModel) -> bool:
    """Whether the mask is one token, the same one wherever it stands, and comes back when decoded."""
    (alone,) = model.encode([MASK])
    if len(alone) != 1 or model.decode([alone])[0].strip() != MASK:
        return False
    return all(
        row.count(alone[0]) == text.count(MASK) for text, row in zip(_BESIDE, model.encode(_BESIDE), strict=True)
    )


def with_mask_token(model: HuggingFaceModel) -> HuggingFaceModel:
    """The model with the mask as one token; it is changed in place where it lacks it."""
    if has_mask_token(model):
        return model
    module: Any = model.module
    if hasattr(module, "peft_config") or not module.get_input_embeddings().weight.requires_grad:
        raise ModelError(
            f"{model.name}: the mask is not one token, and frozen embeddings cannot learn it",
            expected=f"a tokenizer with the token {MASK}",
            hint="--fill-masks kind needs no such token; else train all weights, without LoRA",
        )
    changed = grow_vocabulary(model, [MASK])
    if not has_mask_token(changed):
        raise ModelError(f"{model.name}: the tokenizer does not take {MASK} as one token", hint="use another model")
    return changed


def keep_mask_unsaid(model: HuggingFaceModel) -> tuple[int, ...]:
    """Tell `generate` of transformers never to say the mask; its token, or none where the mask is not one token.

    Redacted training teaches a model to say the mask where a secret stood. Nobody wants to read it, and leaving it
    out looks at no private text: it is post-processing.
    """
    if not has_mask_token(model):
        return ()
    (token,) = model.encode([MASK])[0]
    settings = getattr(model.module, "generation_config", None)
    if settings is not None:
        settings.suppress_tokens = [token]
    return (token,)
