"""The journey from a configuration to a run directory: read, plan, train, release, resume.

    RUN/  run.json  training.json (plan, seed, fingerprints, what else is proved)  guarantee.json (the headline)
          ledger.db  checkpoints/  model/

The folder appears whole, with its ledger, or not at all; after that a run can be resumed from any moment. Sampling
and noise come from the system's generator; the seed is for initial weights, shuffling and dropout.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch

from reticent.audit.attacks.one_run.gradient_canaries import MeasuredEpsilon
from reticent.core.canary_trace import CanaryKey
from reticent.core.certificate import Certificate
from reticent.core.corpus import Corpus
from reticent.core.document import check_schema, number_to_json, read_document, write_document
from reticent.core.errors import ConfigError, DataError
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.ledger import Ledger
from reticent.core.randomness import Randomness
from reticent.ledger.durable import SqliteLedger
from reticent.runs.ancestry import Ancestry, ancestry_of, together
from reticent.runs.certificates import RELEASES, beside, proved_of
from reticent.runs.config import validate
from reticent.runs.corpora import corpus_at
from reticent.runs.corpus_ledger import CorpusLedger, Entry, all_together
from reticent.runs.directory import RunDirectory, staged
from reticent.runs.training.config import DataSection, Method, Precision, TrainConfig
from reticent.runs.training.course import AnyPlan, Course, Means, Prepared, Proof
from reticent.runs.training.launch import launched
from reticent.runs.training.measuring import measure_run
from reticent.runs.training.planning import course_again, plan_course
from reticent.training.batches import choose_token_budget, encode_texts
from reticent.training.checkpoint import Checkpoints
from reticent.training.distributed.ranked import RankedCheckpoints, RankedLedger
from reticent.training.distributed.ranks import Ranks
from reticent.training.evaluation import Evaluation, evaluate
from reticent.training.gradients.recomputation import Recomputation
from reticent.training.gradients.source import ACCOUNT, Computation, GradientSource
from reticent.training.loop import Progress, Schedule, train
from reticent.training.methods.mask_token import keep_mask_unsaid
from reticent.training.optimiser import Learner
from reticent.training.plans.plan import DpSgd, PlainPlan, plan_from_json
from reticent.training.release import release_model
from reticent.training.starting_model import starting_model

SCHEMA_VERSION: Final = 1
TRAINING: Final = "training.json"
ALONE: Final = "this run alone"

# What a run tells while it works: how far it is and ε so far (None without privacy). False asks it to stop.
Observer = Callable[[Progress, float | None], bool]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do and prove."""

    plan: AnyPlan
    guarantee: Guarantee | None
    beside: dict[str, Guarantee] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run did: the steps it spent, what they prove, and how good the model is.

    `guarantee` is the headline; `beside` holds what else is proved of the same run, by name.
    """

    run: Path
    step: int
    steps: int
    is_finished: bool
    guarantee: Guarantee | None
    evaluation: Evaluation | None
    measured: MeasuredEpsilon | None = None  # by gradient canaries, where the run had any
    shortened: int = 0  # texts of which only the first tokens were read, as many as the model can
    beside: dict[str, Guarantee] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything that a run needs, read and checked."""

    config: TrainConfig
    course: Course
    seed: int
    corpus: Corpus
    prepared: Prepared
    ranks: Ranks


def preview(config: TrainConfig) -> Preview:
    """The plan and the guarantee that a run would have. Reads the corpus and writes nothing."""
    config.training.check()
    _check_owners(config)
    corpus = read_corpus(config.data)
    course = plan_course(config, corpus, seed=config.seed or 0)
    ancestry = ancestry_of(config.model.source).compared_with(corpus)
    proof = _proof(course, ancestry)
    if proof.headline is not None and (ledger := _corpus_ledger(config)) is not None:
        alone = proof.beside.get(ALONE, proof.headline)
        earlier = ledger.unlisted(ancestry.overlapping(alone.unit))
        proof = _with_releases(proof, (*ledger.entries(), *earlier, Entry("", "", alone)))
    return Preview(course.plan, proof.headline, proof.beside)


def _proof(course: Course, ancestry: Ancestry, *, is_seeded: bool = False) -> Proof:
    """What the run proves, together with the trainings behind its starting model; its own part beside it."""
    alone = course.proof(is_seeded=is_seeded)
    if alone.headline is None:
        return alone
    whole = together(alone.headline, ancestry)
    others = {name: together(each, ancestry) for name, each in alone.beside.items()}
    if ancestry.overlapping(alone.headline.unit):
        others[ALONE] = alone.headline
    return Proof(whole, others)


def _corpus_ledger(config: TrainConfig) -> CorpusLedger | None:
    return None if config.data.corpus_ledger is None else CorpusLedger(Path(config.data.corpus_ledger))


def _with_releases(proof: Proof, entries: tuple[Entry, ...]) -> Proof:
    """The proof with what all releases of the corpus prove together."""
    if proof.headline is None:
        return proof
    alone = proof.beside.get(ALONE, proof.headline)
    return Proof(proof.headline, proof.beside | {RELEASES: all_together(entries, alone)})


def start(config: TrainConfig, out: Path, *, observe: Observer, randomness: Randomness | None = None) -> Result:
    """Train into a new run directory. `randomness` other than the system's is for experiments and says so."""
    with launched() as ranks:
        return _start(config, out, ranks, observe=observe, source=randomness or Randomness.system())


def _start(config: TrainConfig, out: Path, ranks: Ranks, *, observe: Observer, source: Randomness) -> Result:
    config.training.check()
    config = config.located()
    seed = ranks.tell(Randomness.system().fresh_seed) if config.seed is None else config.seed
    corpus = read_corpus(config.data)
    _check_owners(config)
    if config.data.holdout is not None:
        read_corpus(config.data, holdout=True)  # an error in it shall not wait until the end of the run
    ancestry = ancestry_of(config.model.source).compared_with(corpus)
    course = plan_course(config, corpus, seed=seed)
    planned = _proof(course, ancestry, is_seeded=not source.protects)
    ready = _prepare(config, course, seed, corpus=corpus, ranks=ranks)
    proof = ranks.first(lambda: _create(out, ready, planned, ancestry))
    return _carry_on(RunDirectory(out), ready, proof or Proof(None), observe=observe, randomness=source)


def resume(path: Path, *, observe: Observer, randomness: Randomness | None = None) -> Result:
    """Go on with a run that was interrupted, from its last checkpoint; a finished run is left as it is."""
    with launched() as ranks:
        return _resume(path, ranks, observe=observe, source=randomness or Randomness.system())


def _resume(path: Path, ranks: Ranks, *, observe: Observer, source: Randomness) -> Result:
    run = RunDirectory(path)
    information = ranks.tell(lambda: RunDirectory.open(path).information())
    if information["command"] != "train":
        raise ConfigError(f"{path}: not a training run", found=information["command"])
    if information["finished"] is not None:
        return _finished(run, information["results"])
    config = validate(TrainConfig, information["config"], where=str(path / "run.json"))
    document = ranks.tell(lambda: read_document(path / TRAINING))
    check_schema(document, SCHEMA_VERSION, kind="training run")
    seed = int(document["seed"])
    corpus = read_corpus(config.data)
    if corpus.fingerprint != information["corpora"]["training"]:
        raise DataError(
            "not the corpus that this run was started with",
            path=config.data.file,
            hint="put the old file back, or start a new run",
        )
    course = course_again(config, corpus, document["plan"])
    if course.prepared != document["prepared"]:
        raise ConfigError(
            "the policies find something else than when this run was started",
            hint="put their files back as they were, or start a new run",
        )
    ready = _prepare(config, course, seed, corpus=corpus, ranks=ranks)
    if ready.prepared.model.fingerprint != document["model"]:
        raise ConfigError(f"{config.model.source}: not the model that this run started from")
    proof = Proof(None, beside(document["guarantees"], None, where=TRAINING))
    return _carry_on(run, ready, proof, observe=observe, randomness=source)


def _finished(run: RunDirectory, results: dict[str, Any]) -> Result:
    """What a finished run says of itself."""
    guarantee = proved_of(run.model)
    evaluation = None if results["evaluation"] is None else Evaluation.from_json(results["evaluation"])
    others = beside(read_document(run.path / TRAINING)["guarantees"], guarantee, where=TRAINING)
    plan = read_document(run.path / TRAINING)["plan"]
    measured = measure_run(run.path, plan_from_json(plan)) if plan.get("canaries") else None
    steps = results["steps"]
    return Result(run.path, steps, steps, True, guarantee, evaluation, measured=measured, beside=others)


def read_corpus(data: DataSection, *, holdout: bool = False) -> Corpus:
    """The training text, or the held-out text, in memory."""
    path = data.holdout if holdout and data.holdout is not None else data.file
    fields: dict[str, Any] = {"text": data.text_field, "id": data.id_field, "owner": data.owner_field}
    return corpus_at(Path(path), **fields, format=data.format).load()


def _prepare(config: TrainConfig, course: Course, seed: int, *, corpus: Corpus, ranks: Ranks) -> _Ready:
    """Load the model and encode the text: whatever is wrong with them shows before anything is written."""
    if ranks.size > 1 and not isinstance(course.plan, DpSgd):
        raise ConfigError(
            "several processes train one model with --method dp-sgd alone",
            found=config.training.method.value,
            hint="start it without torchrun",
        )
    _check_shards(config, ranks)
    model = starting_model(config.model.start(), seed=seed)
    if config.model.checkpoint_activations:
        Recomputation(model.module).detach()  # refuses a model without blocks
    prepared = course.prepare(model, max_length=config.data.max_length)
    same = f"{course.identity(corpus.fingerprint)} {model.fingerprint}"
    ranks.require_same(same, what="corpus, plan and model")
    return _Ready(config, course, seed, corpus, prepared, ranks)


def _check_shards(config: TrainConfig, ranks: Ranks) -> None:
    """Refuse shards where there is nobody to share with, or where they are not built."""
    if not config.model.shard_weights:
        return
    if ranks.size == 1:
        raise ConfigError("--shard-weights needs several processes", found="one", hint="start with torchrun")
    if config.model.checkpoint_activations:
        raise ConfigError(
            "sharded weights and recomputed activations do not go together yet",
            hint="leave --shard-weights or --checkpoint-activations out",
        )


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


def _create(out: Path, ready: _Ready, proof: Proof, ancestry: Ancestry) -> Proof:
    """The run directory with plan, guarantee and ledger, made under another name and renamed when complete."""
    RunDirectory.create(out)
    course = ready.course
    alone = proof.beside.get(ALONE, proof.headline)
    lineage = ancestry.followed_by(out.name, alone, ready.corpus)
    if (ledger := _corpus_ledger(ready.config)) is not None:  # before anything that it pays for exists
        for one in () if alone is None else ledger.unlisted(ancestry.overlapping(alone.unit)):
            ledger.enter(one.run, one.guarantee, training=one.training)
        entries = ledger.enter(out.name, alone, training=lineage.runs[-1].identity)
        proof = _with_releases(proof, entries)
    with staged(out) as staging:
        run = RunDirectory.create(staging)
        run.start(
            "train",
            config=ready.config.model_dump(mode="json"),
            seed=ready.config.seed,
            corpora={"training": ready.corpus.fingerprint},
        )
        document = {
            "schema_version": SCHEMA_VERSION,
            "plan": course.plan.to_json(),
            "seed": ready.seed,
            "model": ready.prepared.model.fingerprint,
            "prepared": course.prepared,
            "guarantees": {name: each.to_json() for name, each in proof.beside.items()},
        }
        write_document(staging / TRAINING, document)
        lineage.write(staging)
        if isinstance(course.plan, DpSgd) and course.plan.canaries:
            CanaryKey.toss(course.plan.canaries, Randomness.system()).write(staging)
        budget = proof.budget(course.charged_steps)
        if budget is not None:
            Certificate(budget.guarantee).write(staging)
            name = course.identity(ready.corpus.fingerprint)
            SqliteLedger.create(run.ledger, budget, accounts=[ACCOUNT], identity=name).close()
        staging.chmod(0o755)
    return proof


def _carry_on(
    run: RunDirectory, ready: _Ready, proof: Proof, *, observe: Observer, randomness: Randomness
) -> Result:
    """Train what is left to train, then release the model."""
    if isinstance(ready.course.plan, PlainPlan):
        means = Means(ledger=None, randomness=randomness, computation=_computation(ready))
        return _train(run, ready, Proof(None), means=means, observe=observe)
    with _ledger(run, ready) as ledger:
        means = Means(
            ledger=ledger,
            randomness=randomness,
            computation=_computation(ready),
            shards=ready.config.model.shard_weights,
            folder=run.path,
        )
        whole = Proof(ledger.budget.guarantee, proof.beside)
        return _train(run, ready, whole, means=means, observe=observe)


@contextmanager
def _ledger(run: RunDirectory, ready: _Ready) -> Iterator[Ledger]:
    """The run's ledger: of several processes the first opens it, and the others hear of it."""
    name, ranks = ready.course.identity(ready.corpus.fingerprint), ready.ranks
    with ExitStack() as stack:
        opened = ranks.first(lambda: stack.enter_context(SqliteLedger.open(run.ledger, identity=name)))
        yield RankedLedger(ranks, opened) if opened is None or ranks.size > 1 else opened


def _train(run: RunDirectory, ready: _Ready, proof: Proof, *, means: Means, observe: Observer) -> Result:
    settings = ready.config.training
    source: GradientSource = ready.prepared.source(means)
    learner = Learner(ready.prepared.model.module, settings.optimiser_settings())  # after the weights are sharded
    meter, ranks, folder = ready.course.meter(proof), ready.ranks, run.path / "checkpoints"
    outcome = train(
        learner,
        source,
        checkpoints=Checkpoints(folder) if ranks.size == 1 else RankedCheckpoints(folder, ranks),
        schedule=Schedule(seconds=settings.checkpoint_seconds, steps=settings.checkpoint_steps),
        seed=ready.seed,
        observe=lambda progress: not ranks.any(not observe(progress, meter(source))),
    )
    guarantee = proof.headline
    evaluation, measured = None, None
    if outcome.is_finished:
        ready = _with_whole_weights(ready, learner)
    if outcome.is_finished and ranks.is_first:
        model = ready.prepared.model
        is_redacted = settings.method is Method.CRT
        evaluation = _evaluate(ready, keep_mask_unsaid(model) if is_redacted else ())
        measured = measure_run(run.path, ready.course.plan)
        certificate = None
        if guarantee is not None and means.ledger is not None:
            certificate = Certificate(guarantee, ledger=means.ledger.head())
        release_model(model, run.model, certificate=certificate, merge=ready.config.model.merge)
        if certificate is not None:
            Certificate.read(run.model).write(run.path)
        run.finish(
            steps=outcome.step,
            epsilon=None if guarantee is None else number_to_json(guarantee.epsilon),
            evaluation=None if evaluation is None else evaluation.to_json(),
            guarantees={name: each.to_json() for name, each in proof.beside.items()},
        )
    return Result(
        run.path,
        outcome.step,
        source.steps,
        outcome.is_finished,
        guarantee,
        evaluation,
        measured=measured,
        shortened=ready.prepared.shortened,
        beside=proof.beside,
    )


def _with_whole_weights(ready: _Ready, learner: Learner) -> _Ready:
    """The run with a model that rank 0 can measure and release alone; all ranks put sharded weights together."""
    if not ready.config.model.shard_weights:
        return ready
    weights = learner.weights()
    if not ready.ranks.is_first:
        return ready
    model = starting_model(ready.config.model.start(), seed=ready.seed)
    Learner(model.module, learner.settings).restore(weights, {})
    model.module.eval()
    return replace(ready, prepared=replace(ready.prepared, model=model))


def _evaluate(ready: _Ready, silent: Sequence[int]) -> Evaluation | None:
    data = ready.config.data
    if data.holdout is None:
        return None
    model = ready.prepared.model
    texts = encode_texts(model, read_corpus(data, holdout=True), max_length=data.max_length)
    budget = ready.config.training.token_budget
    if texts.hold(silent):
        silent = ()  # held-out text that is redacted itself has to be predicted with its masks
    return evaluate(model.module, texts, token_budget=budget, silent=silent)


def _computation(ready: _Ready) -> Computation:
    budget = ready.config.training.token_budget or choose_token_budget(ready.prepared.model.vocabulary_size)
    is_half = ready.config.model.precision is Precision.BFLOAT16
    recomputes = ready.config.model.checkpoint_activations
    return Computation(token_budget=budget, dtype=torch.bfloat16 if is_half else None, recomputes=recomputes)
