"""What `reticent train` tells of a run of one model: what it would promise, or what it did and what was proved."""

from typing import TYPE_CHECKING, Final

from reticent.cli.console import Output
from reticent.runs.rounding import at_most

if TYPE_CHECKING:
    from reticent.core.guarantee import Guarantee
    from reticent.runs.training.run import Preview, Result

INTERRUPTED: Final = 130


def show_preview(found: "Preview", output: Output) -> int:
    """What a run would take and promise."""
    guarantee = None if found.guarantee is None else found.guarantee.to_json()
    plan = found.plan.to_json()
    output.document(
        {
            "schema_version": 1,
            "dry_run": True,
            "plan": plan,
            "guarantee": guarantee,
            "guarantees": {name: each.to_json() for name, each in found.beside.items()},
        }
    )
    output.show(f"Would take {found.plan.steps:,} steps.", *_promise(found.guarantee, found.beside, is_done=False))
    noisy = plan.get("private", plan)
    if "noise_multiplier" in noisy:
        output.show(f"Noise multiplier {noisy['noise_multiplier']:g}, clip norm {noisy['clip_norm']:g}.")
    output.show("Nothing was trained or written.")
    return 0


def show_result(result: "Result", output: Output) -> int:
    """What a run did; the exit code."""
    output.document(
        {
            "schema_version": 1,
            "run": str(result.run),
            "finished": result.is_finished,
            "step": result.step,
            "steps": result.steps,
            "model": str(result.run / "model") if result.is_finished else None,
            "guarantee": None if result.guarantee is None else result.guarantee.to_json(),
            "guarantees": {name: each.to_json() for name, each in result.beside.items()},
            "evaluation": None if result.evaluation is None else result.evaluation.to_json(),
            "measured": None if result.measured is None else result.measured.to_json(),
        }
    )
    if not result.is_finished:
        again = f"reticent train --resume {result.run}"
        output.show(f"Stopped after step {result.step:,} of {result.steps:,} and saved. Go on with: {again}")
        return INTERRUPTED
    output.show(f"Trained {result.steps:,} steps; the model is in {result.run / 'model'}.")
    if result.measured is not None:
        output.show(f"Measured by gradient canaries: {result.measured}.")
    if result.shortened:
        output.show(f"{result.shortened:,} texts were longer than --max-length; only their first tokens were read.")
    if result.evaluation is not None:
        seen = result.evaluation
        (low, high), (least, most) = seen.perplexity_interval, seen.top1_interval
        output.show(
            f"Held-out perplexity {seen.perplexity:,.2f} ({low:,.2f} to {high:,.2f}), "
            f"top-1 accuracy {seen.top1:.1%} ({least:.1%} to {most:.1%}), "
            f"n = {seen.tokens:,} tokens of {seen.texts:,} texts, 95 % intervals over texts."
        )
    output.show(*_promise(result.guarantee, result.beside, is_done=True))
    return 0


def _promise(guarantee: "Guarantee | None", beside: "dict[str, Guarantee]", *, is_done: bool) -> list[str]:
    """What was proved, or would be, in words, with everything it rests on."""
    if guarantee is None:
        return ["No guarantee: plain training promises nothing about its text."]
    said = "Proved" if is_done else "Would be proved"
    return [
        f"{said}: {_statement(guarantee)}.",
        *(f"{said} beside it ({name}): {_statement(each)}: {each.covers}." for name, each in beside.items()),
        "It rests on:" if is_done else "It would rest on:",
        *(f"  - {assumption}" for assumption in guarantee.assumes),
    ]


def _statement(guarantee: "Guarantee") -> str:
    if guarantee.epsilon == float("inf"):
        return f"nothing, ε = ∞, for {guarantee.covers}"
    level = f"({at_most(guarantee.epsilon)}, {at_most(guarantee.delta)})-{guarantee.notion.value}"
    return f"{level} for one {guarantee.unit.value} ({guarantee.neighbours.value})"
