"""The journey from a configuration to a run directory: read, plan, train, release, resume.

    RUN/  run.json  training.json (plan, seed, model's fingerprint)  guarantee.json  ledger.db  checkpoints/  model/

The folder appears whole, with its ledger, or not at all; after that a run can be resumed from any moment. Sampling
and noise come from the system's generator; the seed is for initial weights, shuffling and dropout.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from reticent.accounting.ledger import SqliteLedger
from reticent.app.config import validate
from reticent.app.options import corpus_at
from reticent.app.run_directory import RunDirectory
from reticent.app.training_config import DataSection, Precision, TrainConfig
from reticent.core.corpus import Corpus
from reticent.core.document import check_schema, number_to_json, read_document, write_document
from reticent.core.errors import ConfigError, DataError
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.randomness import Randomness
from reticent.models.huggingface import HuggingFaceModel
from reticent.training.batches import TokenTexts, Units, choose_token_budget, encode_texts
from reticent.training.checkpoint import Checkpoints
from reticent.training.evaluation import Evaluation, evaluate
from reticent.training.gradient_source import (
    ACCOUNT,
    Computation,
    GradientSource,
    PlainGradients,
    PrivateGradients,
)
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.loop import Progress, Schedule, train
from reticent.training.optimiser import Learner
from reticent.training.plan import Plan, PrivatePlan, identity, plan_from_json
from reticent.training.release import GUARANTEE, release_model
from reticent.training.starting_model import starting_model

SCHEMA_VERSION: Final = 1
TRAINING: Final = "training.json"

# What a run tells while it works: how far it is and ε so far (None without privacy). False asks it to stop.
Observer = Callable[[Progress, float | None], bool]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do and prove."""

    plan: Plan
    guarantee: Guarantee | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a run did: the steps it spent, what they prove, and how good the model is."""

    run: Path
    step: int
    steps: int
    is_finished: bool
    guarantee: Guarantee | None
    evaluation: Evaluation | None
    shortened: int = 0  # texts of which only the first tokens were read, as many as the model can


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything that a run needs, read and checked."""

    config: TrainConfig
    plan: Plan
    seed: int
    corpus: Corpus
    model: HuggingFaceModel
    texts: TokenTexts


def preview(config: TrainConfig) -> Preview:
    """The plan and the guarantee that a run would have. Reads the corpus, loads no model, writes nothing."""
    config.training.check()
    _check_owners(config)
    corpus = read_corpus(config.data)
    plan = config.training.plan(records=len(corpus), owners=len(corpus.owners), seed=config.seed or 0)
    return Preview(plan, plan.guarantee() if isinstance(plan, PrivatePlan) else None)


def start(config: TrainConfig, out: Path, *, observe: Observer, randomness: Randomness | None = None) -> Result:
    """Train into a new run directory. `randomness` other than the system's is for experiments and says so."""
    config.training.check()
    config = config.located()
    source = randomness or Randomness.system()
    seed = Randomness.system().fresh_seed() if config.seed is None else config.seed
    corpus = read_corpus(config.data)
    _check_owners(config)
    if config.data.holdout is not None:
        read_corpus(config.data, holdout=True)  # an error in it shall not wait until the end of the run
    plan = config.training.plan(records=len(corpus), owners=len(corpus.owners), seed=seed)
    ready = _prepare(config, plan, seed, corpus)
    run = _create(out, ready, is_seeded=not source.protects)
    return _carry_on(run, ready, observe=observe, randomness=source)


def resume(path: Path, *, observe: Observer, randomness: Randomness | None = None) -> Result:
    """Go on with a run that was interrupted, from its last checkpoint; a finished run is left as it is."""
    run = RunDirectory.open(path)
    information = run.information()
    if information["command"] != "train":
        raise ConfigError(f"{path}: not a training run", found=information["command"])
    if information["finished"] is not None:
        return _finished(run, information["results"])
    config = validate(TrainConfig, information["config"], where=str(path / "run.json"))
    document = read_document(path / TRAINING)
    check_schema(document, SCHEMA_VERSION, kind="training run")
    plan, seed = plan_from_json(document["plan"]), int(document["seed"])
    corpus = read_corpus(config.data)
    if corpus.fingerprint != information["corpora"]["training"]:
        raise DataError(
            "not the corpus that this run was started with",
            path=config.data.file,
            hint="put the old file back, or start a new run",
        )
    ready = _prepare(config, plan, seed, corpus)
    if ready.model.fingerprint != document["model"]:
        raise ConfigError(f"{config.model.source}: not the model that this run started from")
    return _carry_on(run, ready, observe=observe, randomness=randomness or Randomness.system())


def _finished(run: RunDirectory, results: dict[str, Any]) -> Result:
    """What a finished run says of itself."""
    stored = run.model / GUARANTEE
    guarantee = Guarantee.from_json(read_document(stored)) if stored.is_file() else None
    evaluation = None if results["evaluation"] is None else Evaluation(**results["evaluation"])
    return Result(run.path, results["steps"], results["steps"], True, guarantee, evaluation)


def read_corpus(data: DataSection, *, holdout: bool = False) -> Corpus:
    """The training text, or the held-out text, in memory."""
    path = data.holdout if holdout and data.holdout is not None else data.file
    fields: dict[str, Any] = {"text": data.text_field, "id": data.id_field, "owner": data.owner_field}
    return corpus_at(Path(path), **fields, format=data.format).load()


def _prepare(config: TrainConfig, plan: Plan, seed: int, corpus: Corpus) -> _Ready:
    """Load the model and encode the text: whatever is wrong with them shows before anything is written."""
    model = starting_model(config.model.start(), seed=seed)
    texts = encode_texts(model, corpus, max_length=config.data.max_length)
    if isinstance(plan, PrivatePlan):
        with PerRecordGradients(model.module, plan.clip_norm):
            pass  # refuses, by name, layers whose per-record gradients cannot be taken
    return _Ready(config, plan, seed, corpus, model, texts)


def _check_owners(config: TrainConfig) -> None:
    """Refuse to protect owners where the corpus names none: each record would be its own owner."""
    data = config.data
    corpus = corpus_at(
        Path(data.file), text=data.text_field, id=data.id_field, owner=data.owner_field, format=data.format
    )
    if config.training.protected is Unit.OWNER and "owner" not in corpus.present():
        raise DataError(
            "the records name no owner, so owners cannot be protected",
            path=data.file,
            expected=f"a field '{data.owner_field}' in every record",
            hint="name it with --owner-field, or protect records",
        )


def _create(out: Path, ready: _Ready, *, is_seeded: bool) -> RunDirectory:
    """The run directory with plan, guarantee and ledger, made under another name and renamed when complete."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"{out}: not an empty directory",
            hint="go on with --resume, choose another --out, or remove the old run yourself",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        run = RunDirectory.create(staging)
        run.start(
            "train",
            config=ready.config.model_dump(mode="json"),
            seed=ready.config.seed,
            corpora={"training": ready.corpus.fingerprint},
        )
        document = {
            "schema_version": SCHEMA_VERSION,
            "plan": ready.plan.to_json(),
            "seed": ready.seed,
            "model": ready.model.fingerprint,
        }
        write_document(staging / TRAINING, document)
        if isinstance(ready.plan, PrivatePlan):
            budget = ready.plan.budget(is_seeded=is_seeded)
            write_document(staging / GUARANTEE, budget.guarantee.to_json())
            name = identity(ready.plan, ready.corpus.fingerprint)
            SqliteLedger.create(run.ledger, budget, accounts=[ACCOUNT], identity=name).close()
        staging.chmod(0o755)
        staging.replace(out)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return RunDirectory.open(out)


def _carry_on(run: RunDirectory, ready: _Ready, *, observe: Observer, randomness: Randomness) -> Result:
    """Train what is left to train, then release the model."""
    plan = ready.plan
    if not isinstance(plan, PrivatePlan):
        source = PlainGradients(ready.model.module, Units(ready.texts), plan, computation=_computation(ready))
        return _train(run, ready, source, guarantee=None, observe=lambda progress: observe(progress, None))
    name = identity(plan, ready.corpus.fingerprint)
    with SqliteLedger.open(run.ledger, identity=name) as ledger:
        private = PrivateGradients(
            ready.model.module,
            Units(ready.texts, plan.unit, texts_per_unit=plan.texts_per_unit),
            plan,
            ledger=ledger,
            randomness=randomness,
            computation=_computation(ready),
        )
        guarantee = ledger.budget.guarantee
        spending = plan.spending(guarantee.epsilon)
        return _train(
            run,
            ready,
            private,
            guarantee=guarantee,
            observe=lambda progress: observe(progress, spending.epsilon(progress.step)),
        )


def _train(
    run: RunDirectory,
    ready: _Ready,
    source: GradientSource,
    *,
    guarantee: Guarantee | None,
    observe: Callable[[Progress], bool],
) -> Result:
    settings = ready.config.training
    outcome = train(
        Learner(ready.model.module, settings.optimiser_settings()),
        source,
        checkpoints=Checkpoints(run.path / "checkpoints"),
        schedule=Schedule(seconds=settings.checkpoint_seconds, steps=settings.checkpoint_steps),
        seed=ready.seed,
        observe=observe,
    )
    evaluation = None
    if outcome.is_finished:
        evaluation = _evaluate(ready)
        release_model(ready.model, run.model, guarantee=guarantee, merge=ready.config.model.merge)
        run.finish(
            steps=outcome.step,
            epsilon=None if guarantee is None else number_to_json(guarantee.epsilon),
            evaluation=None if evaluation is None else evaluation.to_json(),
        )
    return Result(
        run.path, outcome.step, source.steps, outcome.is_finished, guarantee, evaluation, ready.texts.shortened
    )


def _evaluate(ready: _Ready) -> Evaluation | None:
    data = ready.config.data
    if data.holdout is None:
        return None
    texts = encode_texts(ready.model, read_corpus(data, holdout=True), max_length=data.max_length)
    return evaluate(ready.model.module, texts, token_budget=ready.config.training.token_budget)


def _computation(ready: _Ready) -> Computation:
    budget = ready.config.training.token_budget or choose_token_budget(ready.model.vocabulary_size)
    is_half = ready.config.model.precision is Precision.BFLOAT16
    return Computation(token_budget=budget, dtype=torch.bfloat16 if is_half else None)
