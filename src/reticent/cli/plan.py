"""`reticent plan`: how to train privately, chosen from counts and a target."""

from typing import TYPE_CHECKING

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.metric import shown_value, words_of
from reticent.core.printing.numbers import at_most
from reticent.runs.training import advice
from reticent.runs.training.advice import PlanSettings
from reticent.training.plans.sampler import SAMPLERS

if TYPE_CHECKING:
    from reticent.runs.training.comparison import Compared


def _compared(one: "Compared") -> str:
    outside = "" if one.outside is None else f", {one.outside:,.2f} outside secrets"
    return f"On the public text, held-out perplexity with {one.method}: {one.perplexity:,.2f}{outside}."


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
        f"DP-SGD, {sampler}: batch {values['batch']:,}, {values['epochs']:g} epochs, "
        f"{found.steps:,} steps, learning rate {values['learning_rate']:g}, clip norm {values['clip_norm']:g}, "
        f"weights averaged over the last {values['average_tail']:.0%} of the steps.",
        f"Noise multiplier {found.noise_multiplier:g}, or {found.gradient_noise:.2g} per entry of the gradient.",
        f"Would be proved: ({at_most(proved.epsilon)}, {at_most(proved.delta)})-{proved.notion.value} for one "
        f"{proved.unit.value} ({proved.neighbours.value}).",
        *(
            f"  {words_of(name)}: at most {shown_value(name, value, side='up')}"
            for name, value in found.ceilings.items()
        ),
        *(_compared(each) for each in found.compared),
        "Why:",
        *(f"  - {reason}" for reason in found.reasons),
    )
    if settings.out is None:
        output.show("Nothing was written; --out FILE writes the settings for `reticent train --config`.")
    else:
        output.show(f"Written to {settings.out}. Next: reticent train --config {settings.out} --dry-run")
