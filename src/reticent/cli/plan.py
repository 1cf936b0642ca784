"""`reticent plan`: how to train privately, chosen from counts and a target."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.metric import shown_value, words_of
from reticent.runs.rounding import at_most
from reticent.runs.training import advice
from reticent.runs.training.advice import PlanSettings

_SAMPLING = {"poisson": "Poisson samples", "allocation": "random allocation", "banded": "correlated noise"}


@verb(PlanSettings)
def plan(settings: PlanSettings, output: Output) -> None:
    """Choose batch size, epochs, sampler, learning rate and noise for private training, and say why. Reads no text.

    The choice depends only on the numbers you give and on the model, never on private text.
    """
    found = advice.plan(settings)
    output.document(found.to_json())
    values, proved = found.values, found.guarantee
    bands = f" with {values['bands']} bands" if "bands" in values else ""
    output.show(
        f"DP-SGD, {_SAMPLING[values['sampler']]}{bands}: batch {values['batch']:,}, {values['epochs']:g} epochs, "
        f"{found.steps:,} steps, learning rate {values['learning_rate']:g}, clip norm {values['clip_norm']:g}, "
        f"weights averaged over the last {values['average_tail']:.0%} of the steps.",
        f"Noise multiplier {found.noise_multiplier:g}, or {found.gradient_noise:.2g} on an entry of the gradient.",
        f"Would be proved: ({at_most(proved.epsilon)}, {at_most(proved.delta)})-{proved.notion.value} for one "
        f"{proved.unit.value} ({proved.neighbours.value}).",
        *(
            f"  {words_of(name)}: at most {shown_value(name, value, side='up')}"
            for name, value in found.ceilings.items()
        ),
        "Why:",
        *(f"  - {reason}" for reason in found.reasons),
    )
    if settings.out is None:
        output.show("Nothing was written; --out FILE writes the settings for `reticent train --config`.")
    else:
        output.show(f"Written to {settings.out}. Next: reticent train --config {settings.out} --dry-run")
