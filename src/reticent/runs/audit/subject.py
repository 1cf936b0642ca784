"""Opening what an audit looks at: a model by its name, its base, and all that its place says of it.

A model is named by a directory, a hub id, 'embedded', a run directory or an address (`remote`). The guarantee
beside the weights is read with it, and a run says what it started from, how it was trained and what else is proved.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent.auditing.subject import ModelPlace, is_remote
from reticent.core.corpus import Corpus
from reticent.core.document import check_schema, read_document
from reticent.core.errors import ConfigError
from reticent.core.evidence.individual import IndividualBounds
from reticent.core.finding import SCHEMA_VERSION as FINDINGS_VERSION
from reticent.core.finding import Finding
from reticent.core.guarantee import Guarantee
from reticent.core.model import LanguageModel, TextModel
from reticent.models.embedded import EMBEDDED, embedded_model_path
from reticent.models.huggingface.checkpoint import ADAPTER_CONFIG, is_adapter, read_json
from reticent.runs.directory import MANIFEST, RUN, TRAINING, RunDirectory
from reticent.runs.proofs.ancestry import ANCESTRY, Ancestry, require_unseen
from reticent.runs.proofs.certificates import proved_of, read_other_guarantees
from reticent.runs.training.settings import Method

_RANDOM_START: Final = "lstm:"


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that was opened, its base, and all that its place says of it."""

    model: TextModel
    base: LanguageModel | None
    place: ModelPlace


def check_held_out(source: str, held_out: Corpus, path: Path) -> None:
    """Refuse to hold out text that a run was trained on, all of it: no attack would find a leak."""
    folder = Path(source).expanduser()
    if is_remote(source) or not (folder / RUN).is_file():
        return
    information = RunDirectory.open(folder).information()
    trained_on = information["corpora"].get("training") if information["command"] == "train" else None
    if trained_on == held_out.fingerprint:
        raise ConfigError(
            f"{path}: the run was trained on this corpus, so it is not held out",
            hint="give it as --train, and as --holdout text of the same kind that the model never saw",
        )
    if information["command"] == "train" and (folder / ANCESTRY).is_file():
        for own in Ancestry.read(folder).runs[-1:]:
            shared = own.compared_with(held_out).shared
            require_unseen(held_out, 0 if shared is None else shared.texts, path=path)


def find_model(source: str) -> ModelPlace:
    """Where the model of that name stands. Loads nothing."""
    if source == EMBEDDED:
        return ModelPlace(str(embedded_model_path()))
    folder = Path(source).expanduser()
    if is_remote(source) or not folder.is_dir():
        return ModelPlace(source)
    run = folder if (folder / RUN).is_file() else folder.parent
    information: dict[str, Any] = {}
    if (run / RUN).is_file() and (run == folder or folder.name == "model"):
        information = RunDirectory.open(run).information()
        folder = RunDirectory(run).model
        if not folder.is_dir():
            hint = "audit a training run; if it was interrupted, resume it first"
            if (run / MANIFEST).is_file():
                hint = "an ensemble is never released: serve it, and audit the address that it is served at"
            raise ConfigError(f"{run}: this run contains no model", hint=hint)
    guarantee = proved_of(folder)
    is_training = information.get("command") == "train"
    return ModelPlace(
        str(folder),
        guarantee,
        _start_of(information) or _base_of_adapter(folder),
        _other_guarantees(run, guarantee) if is_training else {},
        _recipe(information["config"]) if is_training else None,
        _measured_by(RunDirectory(run)) if is_training else (),
        IndividualBounds.read(run) if is_training else None,
    )


def _recipe(config: dict[str, Any]) -> dict[str, Any]:
    """What a run was asked for, to train others like it.

    In earlier versions DP-SGD kept the temperature, and no adapter was on the output layer.
    """
    training, model = config.get("training", {}), config.get("model", {})
    if training.get("method") == Method.DP_SGD.value and training.get("fixed_temperature") is None:
        training = training | {"fixed_temperature": True}
    if model.get("lora_rank") and model.get("frozen_head") is None:
        model = model | {"frozen_head": True}
    return config | {"training": training, "model": model}


def _other_guarantees(run: Path, headline: Guarantee | None) -> dict[str, Guarantee]:
    """What else is proved of the run: of a missed secret, of a group, against an attacker who knows less."""
    stored_in = run / TRAINING
    if not stored_in.is_file():
        return {}
    return read_other_guarantees(read_document(stored_in).get("guarantees", {}), headline, where=str(stored_in))


def _measured_by(run: RunDirectory) -> tuple[Finding, ...]:
    """What a training measured of itself by gradient canaries; nothing where it had none."""
    if not run.findings.is_file():
        return ()
    document = read_document(run.findings)
    check_schema(document, FINDINGS_VERSION, kind="findings")
    return tuple(Finding.from_json(entry) for entry in document["findings"])


def _start_of(information: dict[str, Any]) -> str | None:
    """The model that a training run started from; None for random weights, which know nothing of any text."""
    model = information.get("config", {}).get("model")
    source = model.get("source") if information.get("command") == "train" and isinstance(model, dict) else None
    return source if isinstance(source, str) and not source.startswith(_RANDOM_START) else None


def _base_of_adapter(folder: Path) -> str | None:
    """The base that a PEFT adapter's configuration names, beside the adapter or like any other model."""
    if not is_adapter(folder):
        return None
    named = read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    if not isinstance(named, str):
        return None  # loading the adapter says what is wrong
    return str(folder / named) if (folder / named).exists() else named


def open_models(
    source: str,
    base: str | None,
    *,
    chat: bool = False,
    tokenizer: Path | None = None,
    journal: Path | None = None,
) -> Opened:
    """The model, its base where one is named or the run names it, and what was proved of it.

    As a `chat`, a model's text is asked for by a user's message; `tokenizer` and `journal` belong to served models.
    """
    from reticent.models.huggingface.chat import with_chat_template
    from reticent.models.huggingface.loading import load_model
    from reticent.runs.audit.remote import open_remote

    place = find_model(source)
    model: TextModel
    if is_remote(source):
        model = open_remote(source, chat=chat, tokenizer=tokenizer, journal=journal)
    elif tokenizer is not None or journal is not None:
        raise ConfigError("--tokenizer and --journal belong to a served model", found=source)
    else:
        loaded = load_model(place.source, name=source)
        model = with_chat_template(loaded) if chat else loaded
    named = base if base is not None else place.started_from
    if named is None:
        return Opened(model, None, place)
    reference = load_model(find_model(named).source, name=named)
    if reference.fingerprint != model.fingerprint:
        return Opened(model, reference, place)
    if base is not None:
        raise ConfigError("the model and its base are the same", hint="name the model that training started from")
    return Opened(model, None, place)
