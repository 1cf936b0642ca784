"""One model, trained by itself: what its run directory holds, and how the training is carried on and released.

    RUN/  run.json  training.json (plan, seed, fingerprints, what else is proved)  guarantee.json (the headline)
          ledger.db  checkpoints/  model/

Sampling and noise come from the system's generator; the seed is for initial weights, shuffling and dropout.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.core.arrays import Flags
from reticent.core.corpus import Record
from reticent.core.document import as_json, check_schema, read_document, write_document
from reticent.core.errors import ConfigError, DataError
from reticent.core.evidence.canary_trace import CanaryKey
from reticent.core.evidence.certificate import Certificate
from reticent.core.evidence.individual import IndividualBounds
from reticent.core.guarantee import Guarantee, Unit
from reticent.core.ledger import Budget, Ledger
from reticent.core.randomness import Randomness
from reticent.data.canaries import names_owner
from reticent.ledger.durable import SqliteLedger
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.runs.directory import TRAINING, RunDirectory, staged
from reticent.runs.proofs.ancestry import Ancestry, together
from reticent.runs.proofs.certificates import RELEASES, proved_of, read_other_guarantees
from reticent.runs.proofs.corpus_ledger import CorpusLedger, Entry, all_together
from reticent.runs.training.course import Course, Encoded, Means, Proof, plan_course, refuse_private, resume_course
from reticent.runs.training.individual import individual_bounds
from reticent.runs.training.result import Observer, Preview, TrainedRun
from reticent.runs.training.run import Given
from reticent.runs.training.settings import Method, TrainSettings
from reticent.training.batches import TokenTexts, encode_texts
from reticent.training.checkpoint import Checkpoints
from reticent.training.distributed.ranked import RankedCheckpoints, RankedLedger
from reticent.training.distributed.ranks import Ranks
from reticent.training.evaluation import Evaluation, evaluate_model, outside_secrets
from reticent.training.gradients.recomputation import Recomputation
from reticent.training.gradients.source import TRAINING_ACCOUNT, GradientSource
from reticent.training.loop import train_learner
from reticent.training.optimiser import Learner
from reticent.training.plans.plan import MEASURE, DpSgd, PlainPlan, plan_from_json
from reticent.training.release import release_model
from reticent.training.starting_model import load_for_training

if TYPE_CHECKING:
    from reticent.auditing.attacks.one_run.gradient_canaries import MeasuredEpsilon

SCHEMA_VERSION: Final = 1
ALONE: Final = "this run alone"


class ModelKind:
    """One model, by any method but an ensemble."""

    def preview(self, given: Given) -> Preview:
        """The plan and the guarantee that the run would have."""
        course, ancestry, proof = _planned(given)
        if proof.headline is not None and (ledger := _corpus_ledger(given.settings)) is not None:
            alone = proof.other_guarantees.get(ALONE, proof.headline)
            earlier = ledger.unlisted(ancestry.overlapping(alone.unit))
            proof = _with_releases(proof, (*ledger.entries(), *earlier, Entry("", "", alone)))
        return Preview(
            steps=course.plan.steps,
            plan=course.plan.to_json(),
            guarantee=proof.headline,
            other_guarantees=proof.other_guarantees,
            redaction=course.redaction,
        )

    def begin(self, given: Given) -> "PreparedModel":
        """A new run."""
        course, ancestry, proof = _planned(given)
        return _prepare(given, course, proof=proof, ancestry=ancestry)

    def resume(self, given: Given, path: Path) -> "PreparedModel":
        """A run that was interrupted, with the plan and the seed that it was started with."""
        document = given.ranks.tell(lambda: read_document(path / TRAINING))
        check_schema(document, SCHEMA_VERSION, kind="training run")
        seed = int(document["seed"])
        course = resume_course(given.settings, given.corpus, document["plan"], public=given.public, seed=seed)
        if course.fingerprint != document["prepared"]:
            if given.public is not None:
                raise ConfigError(
                    "not the public text that this run was started with",
                    hint="put the old file back, or start a new run",
                )
            raise ConfigError(
                "the policies find other spans than when this run was started",
                hint="restore their files, or start a new run",
            )
        proof = Proof(None, read_other_guarantees(document["guarantees"], None, where=TRAINING))
        prepared = _prepare(replace(given, seed=seed), course, proof=proof)
        if prepared.encoded.model.fingerprint != document["model"]:
            raise ConfigError(f"{given.settings.model.source}: not the model that this run started from")
        return prepared

    def finished(self, path: Path, results: dict[str, Any]) -> TrainedRun:
        """What a finished run says of itself."""
        guarantee, steps = proved_of(RunDirectory(path).model), results["steps"]
        document = read_document(path / TRAINING)
        plan = plan_from_json(document["plan"]) if document["plan"].get("canaries") else None
        return TrainedRun(
            path=path,
            step=steps,
            steps=steps,
            is_finished=True,
            guarantee=guarantee,
            other_guarantees=read_other_guarantees(document["guarantees"], guarantee, where=TRAINING),
            evaluation=None if results["evaluation"] is None else Evaluation.from_json(results["evaluation"]),
            measured=_measured(path, plan, guarantee),
            individual=IndividualBounds.read(path),
            redaction=results.get("redaction"),
        )


@dataclass(slots=True, kw_only=True)
class PreparedModel:
    """A run of one model, read and checked; `proof` is what it will prove, with its releases once it is created."""

    given: Given
    course: Course
    encoded: Encoded
    proof: Proof
    ancestry: Ancestry | None = None

    def create(self, out: Path) -> None:
        """The run directory with plan, guarantee and ledger, made under another name and renamed when complete."""
        RunDirectory.for_new_run(out)
        course, ancestry, proof, settings = self.course, self.ancestry, self.proof, self.given.settings
        assert ancestry is not None  # a run that is resumed is not created
        alone = proof.other_guarantees.get(ALONE, proof.headline)
        lineage = ancestry.followed_by(out.name, alone, self.given.corpus)
        if (ledger := _corpus_ledger(settings)) is not None:  # before anything that it pays for exists
            for one in () if alone is None else ledger.unlisted(ancestry.overlapping(alone.unit)):
                ledger.enter(one.run, one.guarantee, training=one.training)
            entries = ledger.enter(out.name, alone, training=lineage.runs[-1].identity)
            self.proof = proof = _with_releases(proof, entries)
        with staged(out) as staging:
            run = RunDirectory.for_new_run(staging)
            run.start(
                "train",
                config=settings.model_dump(mode="json"),
                seed=settings.seed,
                corpora={"training": self.given.corpus.fingerprint},
            )
            document = {
                "schema_version": SCHEMA_VERSION,
                "plan": course.plan.to_json(),
                "seed": self.given.seed,
                "model": self.encoded.model.fingerprint,
                "prepared": course.fingerprint,
                "guarantees": as_json(proof.other_guarantees),
            }
            write_document(staging / TRAINING, document)
            lineage.write(staging)
            if isinstance(course.plan, DpSgd) and course.plan.canaries:
                CanaryKey.toss(course.plan.canaries, Randomness.system()).write(staging)
            if proof.headline is not None:
                Certificate(proof.headline).write(staging)
                budget = Budget(MEASURE, float(course.charged_steps), proof.headline)
                name = course.plan.ledger_name(self.given.corpus.fingerprint)
                SqliteLedger.create(run.ledger, budget, accounts=[TRAINING_ACCOUNT], identity=name).close()
            staging.chmod(0o755)

    def carry_on(self, run: RunDirectory, observe: Observer) -> TrainedRun:
        """Train what is left to train, then release the model."""
        settings, ranks, plan = self.given.settings, self.given.ranks, self.course.plan
        with self._ledger(run) as ledger:
            proof = self.proof if ledger is None else replace(self.proof, headline=ledger.budget.guarantee)
            means = Means(
                ledger=ledger,
                randomness=self.given.randomness,
                computation=settings.computation(self.encoded.model.vocabulary_size),
                shards=settings.model.shard_weights and ledger is not None,
                folder=run.path,
            )
            source: GradientSource = self.encoded.source(means)
            noise = plan.gradient_noise if isinstance(plan, DpSgd) else 0.0
            optimiser = settings.training.optimiser_settings(gradient_noise=noise)
            learner = Learner(self.encoded.model.module, optimiser)  # after sharding
            meter, folder = self.course.meter(proof), run.path / "checkpoints"
            outcome = train_learner(
                learner,
                source,
                checkpoints=Checkpoints(folder) if ranks.size == 1 else RankedCheckpoints(folder, ranks),
                schedule=settings.training.schedule(),
                seed=self.given.seed,
                observe=lambda progress: not ranks.any(not observe(progress, meter(source))),
            )
            evaluation = None
            if outcome.is_finished:
                model = self._whole_model(learner)
                if ranks.is_first:
                    evaluation = self._release(run, model, proof, ledger=ledger, steps=outcome.step)
        return TrainedRun(
            path=run.path,
            step=outcome.step,
            steps=source.steps,
            is_finished=outcome.is_finished,
            guarantee=proof.headline,
            other_guarantees=proof.other_guarantees,
            evaluation=evaluation,
            measured=_measured(run.path, plan, proof.headline) if outcome.is_finished else None,
            individual=IndividualBounds.read(run.path) if outcome.is_finished else None,
            redaction=self.course.redaction,
            shortened=self.encoded.shortened,
        )

    @contextmanager
    def _ledger(self, run: RunDirectory) -> Iterator[Ledger | None]:
        """The run's ledger, where steps are charged: of several processes the first opens it, the others hear."""
        if isinstance(self.course.plan, PlainPlan):
            yield None
            return
        name, ranks = self.course.plan.ledger_name(self.given.corpus.fingerprint), self.given.ranks
        with ExitStack() as stack:
            opened = ranks.first(lambda: stack.enter_context(SqliteLedger.open(run.ledger, identity=name)))
            yield RankedLedger(ranks, opened) if opened is None or ranks.size > 1 else opened

    def _whole_model(self, learner: Learner) -> HuggingFaceModel:
        """A model that rank 0 can measure and release alone; all ranks put sharded weights together."""
        if not self.given.settings.model.shard_weights:
            return self.encoded.model
        weights = learner.weights()
        if not self.given.ranks.is_first:
            return self.encoded.model
        model = load_for_training(self.given.settings.start(), seed=self.given.seed)
        Learner(model.module, learner.settings).restore(weights, {})
        model.module.eval()
        return model

    def _release(
        self, run: RunDirectory, model: HuggingFaceModel, proof: Proof, *, ledger: Ledger | None, steps: int
    ) -> Evaluation | None:
        """Measure the model on held-out text and write it with its certificate; what was measured."""
        settings, guarantee = self.given.settings, proof.headline
        silent: tuple[int, ...] = ()
        if settings.training.method is Method.CRT:
            from reticent.training.methods.mask_token import keep_mask_unsaid

            silent = keep_mask_unsaid(model)
        evaluation = _evaluate(self.given, model, silent)
        certificate = None
        if guarantee is not None and ledger is not None:
            certificate = Certificate(guarantee, ledger=ledger.head())
        if isinstance(self.course.plan, DpSgd) and self.course.plan.individual:
            individual_bounds(run.path, self.course.plan, self.given.corpus).write(run.path)
        release_model(model, run.model, certificate=certificate, merge=settings.model.merge)
        if certificate is not None:
            Certificate.read(run.model).write(run.path)
        run.finish(
            steps=steps,
            epsilon=as_json(None if guarantee is None else guarantee.epsilon),
            evaluation=as_json(evaluation),
            guarantees=as_json(proof.other_guarantees),
            redaction=self.course.redaction,
        )
        return evaluation


def _planned(given: Given) -> tuple[Course, Ancestry, Proof]:
    """What the run does, the trainings behind its starting model, and what both prove; its own part beside it."""
    _check_owners(given.settings, given.corpus)
    ancestry = given.ancestry()
    course = plan_course(given.settings, given.corpus, public=given.public, seed=given.seed)
    alone = course.proof(is_seeded=not given.randomness.protects)
    if alone.headline is None:
        return course, ancestry, alone
    others = {name: together(each, ancestry) for name, each in alone.other_guarantees.items()}
    if ancestry.overlapping(alone.headline.unit):
        others[ALONE] = alone.headline
    return course, ancestry, Proof(together(alone.headline, ancestry), others)


def _measured(run: Path, plan: object, guarantee: Guarantee | None) -> "MeasuredEpsilon | None":
    """What the run's gradient canaries measured; None where its plan has none."""
    if not isinstance(plan, DpSgd) or not plan.canaries:
        return None
    from reticent.runs.training.measuring import record_measured  # auditing, only where there is something to read

    return record_measured(run, plan, guarantee)


def _corpus_ledger(settings: TrainSettings) -> CorpusLedger | None:
    kept = settings.data.corpus_ledger
    return None if kept is None else CorpusLedger(Path(kept))


def _with_releases(proof: Proof, entries: tuple[Entry, ...]) -> Proof:
    """The proof with what all releases of the corpus prove together."""
    if proof.headline is None:
        return proof
    alone = proof.other_guarantees.get(ALONE, proof.headline)
    return Proof(proof.headline, proof.other_guarantees | {RELEASES: all_together(entries, alone)})


def _prepare(given: Given, course: Course, *, proof: Proof, ancestry: Ancestry | None = None) -> PreparedModel:
    """Load the model and encode the text: whatever is wrong with them shows before anything is written."""
    settings, ranks = given.settings, given.ranks
    if ranks.size > 1 and not isinstance(course.plan, DpSgd):
        raise ConfigError(
            "only --method dp-sgd trains one model in several processes",
            found=settings.training.method.value,
            hint="start it without torchrun",
        )
    if ranks.size > 1 and settings.training.public_text is not None:
        raise ConfigError(
            "--public-text needs a single process",
            found=f"{ranks.size} processes",
            hint="train on it first by itself (--method sgd), then start torchrun from that run's model",
        )
    _check_shards(settings, ranks)
    model = load_for_training(settings.start(), seed=given.seed)
    if settings.model.checkpoint_activations:
        Recomputation(model.module).detach()  # refuses a model without blocks
    if isinstance(course.plan, DpSgd):
        refuse_private(model.module, course.plan, processes=ranks.size)
    encoded = course.encode(model, max_length=settings.data.max_length)
    same = f"{course.plan.ledger_name(given.corpus.fingerprint)} {model.fingerprint}"
    ranks.require_same(same, what="corpus, plan and model")
    return PreparedModel(given=given, course=course, encoded=encoded, proof=proof, ancestry=ancestry)


def _check_shards(settings: TrainSettings, ranks: Ranks) -> None:
    """Refuse shards where there is nobody to share with, or where they are not built."""
    if not settings.model.shard_weights:
        return
    if ranks.size == 1:
        raise ConfigError("--shard-weights needs several processes", found="one", hint="start with torchrun")
    if settings.model.checkpoint_activations:
        raise ConfigError(
            "sharded weights and recomputed activations cannot be combined yet",
            hint="leave --shard-weights or --checkpoint-activations out",
        )
    if settings.training.clip_quantile is not None:
        raise ConfigError(
            "sharded weights and a clip norm that follows a quantile cannot be combined yet",
            hint="leave --shard-weights or --clip-quantile out",
        )


def _check_owners(settings: TrainSettings, corpus: Iterable[Record]) -> None:
    """Refuse to protect owners where the corpus names none: each record would be its own owner.

    A corpus that `plant`, `dedup` or `synthesize` wrote has the field in any case: there, a record without an owner
    is owned by its own id, and with `--owner canary` only canaries have other owners.
    """
    data = settings.data
    if settings.training.protected is not Unit.OWNER:
        return
    if not data.names_owners():
        raise DataError(
            "the records have no owners, so owners cannot be protected",
            path=data.file,
            expected=f"a field '{data.owner_field}' in every record",
            hint="name it with --owner-field, or protect records",
        )
    if not any(map(names_owner, corpus)):
        raise DataError(
            "every record is owned by its own id, so one owner would be one record",
            path=data.file,
            found=f"'{data.owner_field}' equal to '{data.id_field}' in every record that is no canary",
            expected="the person each text is by, or about",
            hint="name people with --owner-field, in `plant` and `dedup` too, or protect records",
        )


def _evaluate(given: Given, model: HuggingFaceModel, silent: Sequence[int]) -> Evaluation | None:
    settings, held_out = given.settings, given.held_out
    if held_out is None:
        return None
    texts = encode_texts(model, held_out, max_length=settings.data.max_length)
    if texts.hold(silent):
        silent = ()  # held-out text that is redacted itself has to be predicted with its masks
    outside = _outside(settings, model, texts, held_out.texts)
    budget = settings.training.token_budget
    found = evaluate_model(model.module, texts, token_budget=budget, silent=silent, outside=outside)
    return replace(found, trained_on=given.trained_on)


def _outside(
    settings: TrainSettings, model: HuggingFaceModel, texts: TokenTexts, written: Sequence[str]
) -> list[Flags] | None:
    """Which tokens of each held-out text are outside what a policy finds there; None without a policy."""
    named = settings.policy_of_held_out
    if named is None:
        return None
    from reticent.runs.policies.by_name import policy_named  # loads every policy

    places = model.token_places(written)
    return None if places is None else outside_secrets(texts, places, policy_named(named).find(written))
