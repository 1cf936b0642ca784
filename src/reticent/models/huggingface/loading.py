"""Models from where they are: a directory, a hub id, a PEFT adapter's directory, a GGUF file.

A hub id is downloaded first (configuration, tokenizer and safetensors of the top folder, nothing else) and then
read as a directory, so that the same refusals hold (`checkpoint`). Weights that a file does not hold are an error
rather than random numbers, a tokenizer that came out empty is an error rather than a model that reads nothing, and
a model whose output at a token depends on later tokens is not a causal language model. Every failure is a
`ModelError`.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils import logging as transformers_logging

from reticent.core.errors import ModelError, UsageError
from reticent.core.extras import require
from reticent.models.huggingface import checkpoint
from reticent.models.huggingface.adapter_config import resolved_modules
from reticent.models.huggingface.device import choose_device, choose_dtype
from reticent.models.huggingface.location import locate
from reticent.models.huggingface.model import HuggingFaceModel, unwrap
from reticent.models.lstm.model import register_lstm


def load_model(
    source: str | Path, *, device: str = "auto", dtype: str = "auto", name: str | None = None
) -> HuggingFaceModel:
    """The model at `source`: a directory, an adapter's directory, a .gguf file, or a hub id such as "gpt2".

    `device`: "auto" (cuda, mps, cpu) or a torch device. `dtype`: "auto" or "float32", "bfloat16", "float16",
    "float64"; auto keeps the weights' own, but computes in float32 on a CPU.

    >>> model = reticent.load_model("embedded")
    >>> (scores,) = model.token_log_probs(model.encode(["How can I help?"]))
    >>> bool((scores < 0).all())
    True
    """
    register_lstm()
    place = choose_device(device)
    with quiet(), _one_line(source):
        where = locate(source)
        if where.is_file():
            module, tokenizer = _load_gguf(where, dtype, place)
        elif checkpoint.is_adapter(where):
            module, tokenizer = _load_adapter(where, dtype, place)
        else:
            module, tokenizer = _load_directory(where, dtype, place)
        module = module.to(place).eval()
        checkpoint.require_finite(module.named_parameters(), source)
        _check_vocabulary(module, tokenizer, source)
        _check_causal(module, source)
    return HuggingFaceModel(module, tokenizer, name=name or Path(source).name)


def load_token_classifier(source: str | Path, *, device: str = "cpu") -> tuple[Any, Any]:
    """Model and tokenizer of a classifier of tokens: a directory or a hub id, with the same refusals.

    The tokenizer must be one that keeps offsets.
    """
    place = choose_device(device)
    with quiet(), _one_line(source):
        where = locate(source)
        if where.is_file() or checkpoint.is_adapter(where):
            raise ModelError(f"{source}: not a token classifier", expected="a directory written by save_pretrained")
        checkpoint.check_directory(where)
        config = AutoConfig.from_pretrained(where, trust_remote_code=False, local_files_only=True)
        named = config.architectures or ["none"]
        if not any(name.endswith("ForTokenClassification") for name in named):
            raise ModelError(
                f"{source}: not a token classifier",
                found=named[0],
                expected="an architecture such as BertForTokenClassification",
            )
        module = _read(AutoModelForTokenClassification, where, config)
        module = module.to(choose_dtype("auto", module.dtype, place)).to(place).eval()
        checkpoint.require_finite(module.named_parameters(), source)
        tokenizer = _load_tokenizer(where)
        _check_vocabulary(module, tokenizer, source)
        if not tokenizer.is_fast:
            raise ModelError(
                f"{source}: the tokenizer keeps no offsets", expected="a fast tokenizer, tokenizer.json"
            )
    return module, tokenizer


def _load_directory(directory: Path, dtype: str, device: torch.device) -> tuple[Any, Any]:
    """Model and tokenizer of a directory written by save_pretrained."""
    checkpoint.check_directory(directory)
    config = AutoConfig.from_pretrained(directory, trust_remote_code=False, local_files_only=True)
    _check_architecture(config, directory)
    module = _read(AutoModelForCausalLM, directory, config)
    return module.to(choose_dtype(dtype, module.dtype, device)), _load_tokenizer(directory)


def _read(kind: Any, directory: Path, config: Any) -> Any:
    """The model of that kind with all of its weights, which are safetensors."""
    module, info = kind.from_pretrained(
        directory,
        config=config,
        dtype="auto",
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
    )
    _check_complete(info, directory)
    return module


def _load_gguf(path: Path, dtype: str, device: torch.device) -> tuple[Any, Any]:
    """Model and tokenizer of a GGUF file, dequantised to float32."""
    require("gguf", purpose="reading a GGUF file")
    module, info = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, local_files_only=True, output_loading_info=True
    )
    _check_complete(info, path)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    return module.to(choose_dtype(dtype, torch.float32, device)), tokenizer


def _load_adapter(directory: Path, dtype: str, device: torch.device) -> tuple[Any, Any]:
    """The base model that an adapter's configuration names, with the adapter's layers in it."""
    from peft import PeftConfig, PeftModel, get_peft_model_state_dict
    from safetensors import safe_open

    checkpoint.check_directory(directory)
    config = checkpoint.read_json(directory / checkpoint.ADAPTER_CONFIG)
    base_path = _locate_base(config.get("base_model_name_or_path"), directory)
    if base_path.is_file():
        base, tokenizer = _load_gguf(base_path, dtype, device)
    elif checkpoint.is_adapter(base_path):
        raise ModelError(f"{directory}: the adapter's base is itself an adapter", hint="merge the base first")
    else:
        base, tokenizer = _load_directory(base_path, dtype, device)
    asked = PeftConfig.from_pretrained(directory)
    names = [name for name, _ in base.named_modules()]
    for key, matched in resolved_modules(config, names, directory / checkpoint.ADAPTER_CONFIG).items():
        setattr(asked, key, set(matched))
    with warnings.catch_warnings():  # on an adapted head whose weights the embeddings share: nothing merges them
        warnings.simplefilter("ignore")
        adapted = PeftModel.from_pretrained(base, directory, config=asked, is_trainable=False, torch_device="cpu")
    module = unwrap(adapted)
    with safe_open(directory / "adapter_model.safetensors", framework="pt") as file:
        missing = set(get_peft_model_state_dict(adapted, save_embedding_layers=False)) - set(file.keys())
    _check_complete({"missing_keys": missing}, directory)
    own_tokenizer = _load_tokenizer(directory) if checkpoint.has_tokenizer(directory) else tokenizer
    return module, own_tokenizer


def _locate_base(base: object, directory: Path) -> Path:
    """Where an adapter's base is: relative to the adapter's directory, else like any other source."""
    if not isinstance(base, str) or not base:
        raise ModelError(
            f"{directory / checkpoint.ADAPTER_CONFIG}: does not name the adapter's base model",
            hint="set base_model_name_or_path to the base's directory or hub id",
        )
    beside = directory / base
    return beside if beside.exists() else locate(base)


def _load_tokenizer(directory: Path) -> Any:
    if not checkpoint.has_tokenizer(directory):
        raise ModelError(
            f"{directory}: no tokenizer in this directory",
            expected="tokenizer.json",
            hint="save the tokenizer beside the model with save_pretrained()",
        )
    return AutoTokenizer.from_pretrained(directory, trust_remote_code=False, local_files_only=True)


def _check_architecture(config: Any, where: Path) -> None:
    """Refuse a model whose own configuration says that it is not causal, before its weights are read."""
    known = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    classes = known if isinstance(known, tuple) else (known,)
    names = {each.__name__ for each in classes if each is not None}
    own = set(config.architectures or names)
    is_whole = not getattr(config, "is_encoder_decoder", False)
    if not (names & own) or not is_whole:
        raise ModelError(
            f"{where}: not a causal language model",
            found=", ".join(sorted(own)) or config.model_type,
            expected="an architecture that predicts the next token, such as GPT2LMHeadModel or LlamaForCausalLM",
        )


def _check_complete(info: dict[str, Any], where: Path) -> None:
    """Refuse weights with holes: transformers would fill them with random numbers."""
    missing = sorted(map(str, info.get("missing_keys", ())))
    if missing:
        raise ModelError(
            f"{where}: the weights are incomplete",
            found=f"{len(missing)} missing tensors, the first {missing[0]}",
            hint="save or download the model again",
        )


def _check_vocabulary(module: Any, tokenizer: Any, source: str | Path) -> None:
    """Refuse an empty tokenizer, and one with ids that the embedding has no row for."""
    vocabulary = tokenizer.get_vocab()
    ordinary = len(vocabulary) - len(set(tokenizer.all_special_tokens))
    rows = int(module.get_input_embeddings().weight.shape[0])
    if ordinary < 1:
        raise ModelError(
            f"{source}: the tokenizer has no vocabulary",
            found=f"{len(vocabulary)} entries",
            expected=f"about {rows}",
            hint="put the tokenizer.json that belongs to the model beside it",
        )
    if max(vocabulary.values()) >= rows:
        raise ModelError(
            f"{source}: the tokenizer does not belong to this model",
            found=f"token ids up to {max(vocabulary.values())}",
            expected=f"ids below {rows}, the rows of the embedding",
            hint="use the model's own tokenizer, or resize the embedding and train it",
        )


def _check_causal(module: Any, source: str | Path) -> None:
    """Refuse a model whose logits at a token change with a later token: padding and scoring rest on this."""
    rows = int(module.get_input_embeddings().weight.shape[0])
    tokens = torch.tensor([[0, 1, 2], [0, 1, 3]], device=module.device) % rows
    with torch.inference_mode():
        logits = module(input_ids=tokens).logits[:, :2].float()  # [2, 2, V]: what stands before the difference
    tolerance = 1e-4 if module.dtype in (torch.float32, torch.float64) else 1e-2
    if float((logits[0] - logits[1]).abs().max()) > tolerance * max(1.0, float(logits.abs().max())):
        raise ModelError(
            f"{source}: not a causal language model: its prediction of a token depends on later tokens",
            found=type(module).__name__,
            expected="a decoder (is_decoder in its configuration)",
        )


@contextmanager
def _one_line(source: str | Path) -> Iterator[None]:
    """Turn whatever the libraries raise over a broken model into one line that names it."""
    try:
        yield
    except UsageError:
        raise
    except ImportError as error:
        raise ModelError(f"{source}: needs a package that is not installed", found=_first_line(error)) from error
    except Exception as error:  # safetensors, tokenizers and gguf raise bare exceptions of their own
        raise ModelError(f"{source}: cannot be loaded as a model", found=_first_line(error)) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no advice of transformers on standard error while a model is loaded or saved."""
    was_enabled, verbosity = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if was_enabled:
            transformers_logging.enable_progress_bar()
