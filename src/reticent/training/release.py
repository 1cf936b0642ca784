"""What leaves a run: `model/` with weights, tokenizer and, beside them, what was proved.

Weights are safetensors that `transformers` loads. A LoRA run leaves the adapter and the place of its base, or, when
merged, a whole model; a temperature that was trained is folded into them first. Where embeddings are the output
layer's weights as well, and an adapter changes the output layer alone, the merged model has a matrix for each. The
folder is written under another name and renamed: a model is there with its guarantee, or not there.
"""

import shutil
import warnings
from pathlib import Path
from typing import Any

from safetensors.torch import save_model
from torch import nn

from reticent.core.document import read_document, sync, write_document
from reticent.core.evidence.certificate import Certificate
from reticent.models.huggingface.loading import quiet
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.training.temperature import folded, head_of


def release_model(
    model: HuggingFaceModel | nn.Module, folder: Path, *, certificate: Certificate | None, merge: bool = False
) -> Path:
    """Write the model to `folder`, replacing what a run that was killed here may have left.

    The certificate is written beside the weights and bound to them. A module alone has no tokenizer to write.
    """
    module: Any = model.module if isinstance(model, HuggingFaceModel) else model
    with folded(module):
        return _release(module, model, folder, certificate=certificate, merge=merge)


def _release(
    module: Any,
    model: HuggingFaceModel | nn.Module,
    folder: Path,
    *,
    certificate: Certificate | None,
    merge: bool,
) -> Path:
    if merge and hasattr(module, "merge_and_unload"):
        module = _merged(module)
    unfinished = folder.with_name(f".unfinished-{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with quiet():
        _save(module, unfinished)
    if isinstance(model, HuggingFaceModel):
        model.tokenizer.save_pretrained(unfinished)
    (unfinished / "README.md").unlink(missing_ok=True)  # peft's empty form
    _sort_modules(unfinished / "adapter_config.json")
    if certificate is not None:
        certificate.bound_to(unfinished).write(unfinished)
    for path in (*unfinished.iterdir(), unfinished):
        sync(path)
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    sync(folder.parent)
    return folder


def _merged(adapted: Any) -> Any:
    """The whole model. An adapted head that shares its weights gets its own first: embeddings were not adapted."""
    base = getattr(head_of(adapted), "base_layer", None)
    if isinstance(base, nn.Linear) and base.weight is adapted.get_input_embeddings().weight:
        base.weight = nn.Parameter(base.weight.detach().clone(), requires_grad=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the two are no longer tied
        return adapted.merge_and_unload()


def _save(module: Any, folder: Path) -> None:
    """The weights as the module itself saves them, or all of its tensors by name, shared ones once."""
    if hasattr(module, "merge_and_unload"):  # the adapter alone: peft would add the matrix under an adapted head
        module.save_pretrained(folder, save_embedding_layers=False)
    elif hasattr(module, "save_pretrained"):
        module.save_pretrained(folder)
    else:
        save_model(module, str(folder / "model.safetensors"))


def _sort_modules(path: Path) -> None:
    """peft writes a set in the order of the process's string hashes: the same adapter would have many digests."""
    if path.is_file():
        settings = read_document(path)
        if isinstance(settings.get("target_modules"), list):
            write_document(path, settings | {"target_modules": sorted(settings["target_modules"])})
