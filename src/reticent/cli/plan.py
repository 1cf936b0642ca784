"""`reticent plan`: how to train privately, chosen from counts and a target."""

from typing import TYPE_CHECKING

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.metric import shown_value, words_of
from reticent.core.printing.numbers import at_most, counted
from reticent.runs.training import advice
from reticent.runs.training.advice import PlanSettings
from reticent.training.plans.sampler import SAMPLERS

if TYPE_CHECKING:
    from reticent.core.guarantee import Guarantee
    from reticent.runs.training.comparison import Compared


def _compared(one: "Compared") -> str:
    outside = "" if one.outside is None else f"; {one.outside:,.2f} outside secrets"
    low, high = one.interval
    return (
        f"On the public text, held-out perplexity with {one.method}: {one.perplexity:,.2f} "
        f"({low:,.2f} to {high:,.2f}){outside}."
    )


def _passes(epochs: float) -> str:
    return counted(1, "epoch") if epochs == 1.0 else f"{epochs:g} epochs"


def _risk_lines(settings: PlanSettings, proved: "Guarantee") -> list[str]:
    """The ceiling that was asked for, where it is not among those of membership."""
    risk = settings.risk
    if risk is None or risk.secret_bits is None:
        return []
    return [f"  {risk.name}: at most {risk.shown(risk.ceiling(proved))}"]


@verb(PlanSettings)
def plan(settings: PlanSettings, output: Output) -> None:
    """Choose batch size, epochs, sampler, learning rate and noise for private training, and say why.

    The choice depends only on the numbers you give and on the model, never on private text. With --public-text
    methods are compared on public text.
    """
    found = advice.plan(settings, track=output.track)
    output.document(found)
    values, proved = found.values, found.guarantee
    sampler = SAMPLERS[values["sampler"]].label
    output.show(
        f"DP-SGD, {sampler}: batch {values['batch']:,}, {_passes(values['epochs'])}, "
        f"{counted(found.steps, 'step')}, learning rate {values['learning_rate']:g}, clip norm "
        f"{values['clip_norm']:g}.",
        f"Noise multiplier {found.noise_multiplier:g}, or {found.gradient_noise:.2g} per entry of the gradient.",
        f"Would be proved: ({at_most(proved.epsilon)}, {at_most(proved.delta)})-{proved.notion.value} for one "
        f"{proved.unit.value} ({proved.neighbours.value}).",
        *(
            f"  {words_of(name)}: at most {shown_value(name, value, side='up')}"
            for name, value in found.ceilings.items()
        ),
        *_risk_lines(settings, proved),
        *(_compared(each) for each in found.compared),
        found.expectation,
        "Why:",
        *(f"  - {reason}" for reason in found.reasons),
    )
    if settings.out is None:
        output.show("Nothing was written; --out FILE writes the settings for `reticent train --config`.")
    else:
        output.show(f"Written to {settings.out}. Next: reticent train --config {settings.out} --dry-run")
