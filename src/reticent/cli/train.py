"""`reticent train`: a model from a corpus, plainly or with a guarantee; can be stopped and resumed."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.evidence.canary_trace import KEY as CANARY_KEY
from reticent.core.evidence.individual import FILE as INDIVIDUAL
from reticent.core.guarantee import PRACTICALLY_NOTHING
from reticent.core.printing.numbers import at_most, counted
from reticent.models.huggingface.location import meant_embedded
from reticent.runs.settings.declaration import flag_of
from reticent.runs.training.settings import Resumption, TrainSettings

if TYPE_CHECKING:
    from reticent.accounting.risk_target import RiskTarget
    from reticent.core.guarantee import Guarantee
    from reticent.runs.training.result import ManyRecords, Preview, TrainedRun

INTERRUPTED: Final = 130


@verb(TrainSettings, instead={"resume": Resumption})
def train(settings: TrainSettings | Resumption, output: Output) -> int:
    """Train a model on a corpus.

    Private methods draw noise and samples from the system's random generator; --seed does not affect them.

    Exit code 1 if --audit refutes the guarantee.
    """
    settings.check_paths()
    from reticent.runs.training import run as training

    if isinstance(settings, TrainSettings) and settings.dry_run:
        return _show_preview(training.preview(settings), output, settings)
    with _Watch(output) as watch:
        result = training.train(
            settings,
            observe=watch.observe,
            announce=lambda chosen, owners: output.show(*_chosen_lines(chosen), *_owner_lines(owners)),
        )
    risk = settings.training.risk if isinstance(settings, TrainSettings) else None
    return _show_result(result, output, risk=risk)


class _Watch:
    """A progress bar with loss, ε so far and speed, and Ctrl-C as a request to save and stop."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __enter__(self) -> "_Watch":
        self._stack = ExitStack()
        self._bars = self._stack.enter_context(self._output.progress())
        self._is_asked = self._stack.enter_context(interruptible())
        self._task = self._bars.add_task("training", total=None, status="")
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def observe(self, progress: Any, epsilon: float | None) -> bool:
        """Show a step; False once the operator wants to stop."""
        parts = [] if progress.loss is None else [f"loss {progress.loss:.3f}"]
        parts += [] if epsilon is None else [f"ε ≤ {at_most(epsilon)}"]
        parts += [f"{progress.tokens_per_second:,.0f} tokens/s"] if progress.tokens_per_second else []
        self._bars.update(self._task, completed=progress.step, total=progress.steps, status=" · ".join(parts))
        return not self._is_asked()


def _risk_lines(risk: "RiskTarget | None", guarantee: "Guarantee | None") -> list[str]:
    """The ceiling that was reached, beside the limit that was asked for."""
    if risk is None or guarantee is None:
        return []
    reached, limit = (risk.shown(each) for each in (risk.ceiling(guarantee), risk.limit))
    return [f"Ceiling of the target: {risk.name}, at most {reached} (asked for: {limit})."]


def _chosen_lines(chosen: dict[str, float]) -> list[str]:
    """What was chosen for options that were not given."""
    flags = ", ".join(f"{flag_of(key)} {value:g}" for key, value in chosen.items())
    said = f"Chosen from the number of units, and the size of the model if it is known: {flags}."
    return [said] if chosen else []


def _owner_lines(owners: "ManyRecords | None", guarantee: "Guarantee | None" = None) -> list[str]:
    """A warning where the promise is for a record and people have several; and what it is for them, if known."""
    if owners is None:
        return []
    whose = "Most" if owners.several > owners.owners / 2 else "Some"
    whose = "All" if owners.several == owners.owners else whose
    lines = [
        f"{whose} owners have several records ({owners.several:,} of {owners.owners:,}; at most {owners.most:,}), "
        "and the promise is for one record. To protect people, use --unit owner."
    ]
    if guarantee is None:
        return lines
    from reticent.accounting.guarantees import guarantee_of_owner

    asked = {owners.half: "half", owners.nine_tenths: "nine tenths", owners.most: "all"}  # of equal ones the last
    found = {records: guarantee_of_owner(guarantee, records) for records in sorted(asked) if records > 1}
    known = {records: each.epsilon for records, each in found.items() if each is not None}
    if not known:
        return [*lines, "No ε is known here for all records of one owner together."]
    said = [
        f"{at_most(epsilon) if epsilon <= PRACTICALLY_NOTHING else f'above {PRACTICALLY_NOTHING}'} for "
        f"{records:,} records ({asked[records]} of the owners have at most so many)"
        for records, epsilon in known.items()
    ]
    lines.append(f"ε for all records of one owner together: {', '.join(said)}; δ = {at_most(guarantee.delta)}.")
    if max(known.values()) > PRACTICALLY_NOTHING:
        lines.append(f"An ε above {PRACTICALLY_NOTHING} by itself promises practically nothing.")
    return lines


def _tuning_lines(mean: int | None) -> list[str]:
    """How many runs there will be, which is drawn at random."""
    if mean is None:
        return []
    from reticent.runs.training.tuning import likely_runs

    half, most = (counted(likely_runs(mean, share), "run") for share in (0.5, 0.95))
    return [
        f"Would make {mean:,} such runs on average, of which the best is kept: the number is drawn at random and "
        f"kept secret. With a chance of at least 50 % there are at most {half}, with 95 % at most {most}."
    ]


def _show_preview(found: "Preview", output: Output, settings: TrainSettings) -> int:
    """What a run would do and promise; the exit code."""
    document: dict[str, Any] = {"schema_version": 1, "dry_run": True, "guarantee": None}
    here = {"model_is_here": found.model_is_here}
    if found.plan is None:
        members, smallest, largest = len(found.records), min(found.records), max(found.records)
        output.document(document | {"parts": found.parts, "members": members, "steps": found.steps} | here)
        output.show(*_unseen_model_lines(settings, found))
        output.show(
            f"Would train {members} members for {found.parts} parts, on {smallest:,} to {largest:,} records each,"
            f" {counted(found.steps, 'step')} in all.",
            "The weights would have no guarantee; the predictions have one (`reticent predict`).",
        )
    else:
        proved = {"guarantee": found.guarantee, "guarantees": found.other_guarantees}
        made = {"plan": found.plan, "chosen": found.chosen} | proved
        owners = None if found.owners is None else asdict(found.owners)
        output.document(document | made | {"redaction": found.redaction, "owners": owners} | here)
        output.show(*_unseen_model_lines(settings, found), *_chosen_lines(found.chosen))
        output.show(f"Would take {counted(found.steps, 'step')}.", *_tuning_lines(settings.training.tune))
        output.show(*_redaction_lines(found.redaction), *_owner_lines(found.owners, found.guarantee))
        output.show(*_promise(found.guarantee, found.other_guarantees, is_done=False))
        noisy = found.plan.get("private", found.plan)
        if "noise_multiplier" in noisy:
            output.show(*_risk_lines(settings.training.risk, found.guarantee))
            output.show(f"Noise multiplier {noisy['noise_multiplier']:g}, {_clipping(noisy)}.")
            output.show(*_measuring_lines(noisy))
    output.show("Nothing was trained.")
    return 0


def _unseen_model_lines(settings: TrainSettings, found: "Preview") -> list[str]:
    """A warning where nobody looked whether there is such a model."""
    if found.model_is_here:
        return []
    source = settings.model.source
    size = "; it is taken for a large model" if found.chosen else ""
    near = meant_embedded(source)
    return [
        f"Warning: the model '{source}' is not in a folder here, and a dry run asks no hub: whether it exists was "
        f"not checked{size}." + (f" {near.capitalize()}" if near else "")
    ]


def _measuring_lines(plan: dict[str, Any]) -> list[str]:
    """What a run would measure and prove beside its guarantee."""
    lines = []
    if count := plan.get("canaries"):
        lines.append(
            f"Would measure a lower bound on ε with {counted(count, 'gradient canary', 'gradient canaries')}. They "
            f"are units too: the plan has {plan['units']:,} units with them, and a batch of {plan['batch']:,}, so "
            "that each takes part about as often as without them. What they add to the gradients is more noise for "
            "the model."
        )
    if plan.get("individual"):
        lines.append(
            "Would also prove an ε for each record by its own gradients, in another pass over the corpus per "
            "epoch. How large these are is known only after training."
        )
    return lines


def _clipping(plan: dict[str, Any]) -> str:
    """What gradients are clipped to."""
    norm = f"clip norm {plan['clip_norm']:g}"
    if "clip_quantile" not in plan:
        return norm
    return (
        f"{norm} in the first step, which then follows quantile {plan['clip_quantile']:g} of the gradient norms by "
        f"counts with noise of standard deviation {plan['count_noise']:g}"
    )


def _show_result(result: "TrainedRun", output: Output, *, risk: "RiskTarget | None") -> int:
    """What a run did; the exit code."""
    output.document(_document(result))
    if not result.is_finished:
        again = f"reticent train --resume {result.path}"
        output.show(f"Stopped after step {result.step:,} of {result.steps:,} and saved. Continue with: {again}")
        return INTERRUPTED
    output.show(*(_model_lines(result) if result.manifest is None else _ensemble_lines(result)))
    if result.owners is None and "owner" in result.other_guarantees:  # finished before: its corpus is not read
        output.show("The first promise is for one record, and some owner has several. See --unit owner.")
    output.show(*_owner_lines(result.owners, result.guarantee))
    output.show(*_risk_lines(risk, result.guarantee))
    return int(result.measured is not None and result.measured.is_refuted)


def _document(result: "TrainedRun") -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema_version": 1,
        "run": str(result.path),
        "finished": result.is_finished,
        "step": result.step,
        "steps": result.steps,
    }
    if result.manifest is not None:
        from reticent.runs.ensemble.manifest import NOTICE

        manifest = result.manifest
        members = {"parts": manifest.parts, "members": len(manifest.members)}
        return document | members | {"guarantee": None, "notice": NOTICE}
    return document | {
        "model": result.model if result.is_finished else None,
        "guarantee": result.guarantee,
        "guarantees": result.other_guarantees,
        "evaluation": result.evaluation,
        "measured": result.measured,
        "individual": _individual_document(result),
        "redaction": result.redaction,
    }


def _individual_document(result: "TrainedRun") -> dict[str, Any] | None:
    """What was proved of single records, in quantiles."""
    bounds = result.individual
    if bounds is None:
        return None
    tenth, half, most = bounds.quantiles(0.1, 0.5, 0.9)
    found = {"records": len(bounds.records), "delta": bounds.delta, "epsilon_10": tenth, "epsilon_50": half}
    return found | {"epsilon_90": most, "file": str(result.path / INDIVIDUAL)}


def _model_lines(result: "TrainedRun") -> list[str]:
    lines = [f"Trained {counted(result.steps, 'step')}; the model is in {result.model}."]
    if result.shortened:
        lines.append(
            f"{counted(result.shortened, 'text')} truncated to --max-length, or to what the model can read."
        )
    if result.evaluation is not None:
        seen = result.evaluation
        (low, high), (least, most) = seen.perplexity_interval, seen.top1_interval
        lines.append(
            f"Held-out perplexity {seen.perplexity:,.2f} ({low:,.2f} to {high:,.2f}), "
            f"top-1 accuracy {seen.top1:.1%} ({least:.1%} to {most:.1%}), "
            f"n = {counted(seen.tokens, 'token')} of {counted(seen.texts, 'text')}, 95 % intervals over texts."
        )
        if seen.trained_on:
            lines.append(
                f"The training corpus holds {seen.trained_on:,} of these texts too: on text that is really held "
                "out, the model is worse than this."
            )
        if seen.outside is not None:
            rest, (low, high) = seen.outside, seen.outside.perplexity_interval
            lines.append(
                f"Outside the secrets that the policy finds in it: perplexity {rest.perplexity:,.2f} "
                f"({low:,.2f} to {high:,.2f}), top-1 accuracy {rest.top1:.1%}, n = {counted(rest.tokens, 'token')}."
            )
    if result.measured is not None:
        lines.append(f"Measured by gradient canaries: {result.measured}.")
    elif (result.path / CANARY_KEY).is_file():
        lines.append(
            "Gradient canaries measured nothing: an interruption lost steps, so it is not known which step belongs "
            "to which epoch or cycle."
        )
    lines += _individual_lines(result)
    return [
        *lines,
        *_redaction_lines(result.redaction),
        *_promise(result.guarantee, result.other_guarantees, is_done=True),
    ]


def _individual_lines(result: "TrainedRun") -> list[str]:
    """What was proved of single records, in quantiles."""
    bounds = result.individual
    if bounds is None:
        return []
    tenth, half, most = (at_most(each) for each in bounds.quantiles(0.1, 0.5, 0.9))
    return [
        f"Proved for single records by their own gradients: ε at most {tenth} for a tenth of them, {half} "
        f"for half, {most} for nine tenths (δ = {bounds.delta:g}, n = {len(bounds.records):,}).",
        f"These numbers are as private as the records. Each record's ε is in {result.path / INDIVIDUAL}.",
    ]


def _redaction_lines(counts: dict[str, Any] | None) -> list[str]:
    """What redaction did, for the operator."""
    if counts is None:
        return []

    def kinds(found: dict[str, int]) -> str:
        return ", ".join(f"{kind} {number:,}" for kind, number in found.items()) or "nothing"

    lines = [
        f"Redacted {counted(counts['records'], 'record')}: {counts['masked']:,} contain masks, {counts['bare']:,} "
        "nothing but masks.",
        f"The policy found: {kinds(counts['found'])}.",
    ]
    if counts["doubtful"] or counts["public"]:  # without a conservative policy there is neither
        lines.append(
            f"The conservative policy found in the rest: {kinds(counts['doubtful'])};"
            f" {counts['repeated_spans']:,} of these spans had occurred in an earlier record and were masked."
        )
    lines.append(
        f"Public records: {counts['public']:,} ({counted(counts['duplicates'], 'duplicate')} dropped). "
        f"Private records: {counts['private']:,}. {counts['noisy_share']:.1%} of the words are trained with noise."
    )
    return lines


def _ensemble_lines(result: "TrainedRun") -> list[str]:
    from reticent.runs.ensemble.manifest import NOTICE

    manifest = result.manifest
    assert manifest is not None
    kind = "adapters" if manifest.lora_rank else "models"
    return [
        f"Trained {len(manifest.members)} {kind} for {manifest.parts} parts in {counted(result.steps, 'step')};"
        f" every {manifest.unit} is in exactly one part, checked record by record.",
        NOTICE,
        f"Query it with: reticent predict {result.path} --prompt … --epsilon 8 --delta 1e-5",
    ]


def _promise(guarantee: "Guarantee | None", others: "dict[str, Guarantee]", *, is_done: bool) -> list[str]:
    """What was proved, or would be, in words, with everything it rests on."""
    if guarantee is None:
        return ["No guarantee: plain training promises nothing about its text."]
    said = "Proved" if is_done else "Would be proved"
    about = f", for {guarantee.covers}" if guarantee.epsilon == float("inf") else ""
    return [
        f"{said}: {_statement(guarantee)}{about}.",
        *(f"{said} as well ({name}): {_statement(each)}: {each.covers}." for name, each in others.items()),
        "It assumes:" if is_done else "It would assume:",
        *(f"  - {assumption}" for assumption in guarantee.assumes),
        *(
            f"  - ({name}) {assumption}"
            for name, each in others.items()
            for assumption in each.assumes
            if assumption not in guarantee.assumes
        ),
    ]


def _statement(guarantee: "Guarantee") -> str:
    if guarantee.epsilon == float("inf"):
        return "nothing, ε = ∞"
    if guarantee.delta >= 1.0:
        return f"nothing, since δ = 1 (ε = {at_most(guarantee.epsilon)})"
    level = f"({at_most(guarantee.epsilon)}, {at_most(guarantee.delta)})-{guarantee.notion.value}"
    return f"{level} for one {guarantee.unit.value} ({guarantee.neighbours.value})"


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside, the first SIGINT or SIGTERM makes the given function return True; the next SIGINT interrupts."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield asked.is_set
        return

    def ask(number: int, _: FrameType | None) -> None:
        if asked.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
