"""`reticent plant`: a corpus with canaries, and the key file that names them."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.printing.numbers import counted
from reticent.data.canaries import CanaryOwner
from reticent.runs.corpus import plant as planting
from reticent.runs.corpus.plant import Planted, PlantSettings


@verb(PlantSettings)
def plant(settings: PlantSettings, output: Output) -> None:
    """Write a corpus with planted canaries, and the key file that names them.

    Keep the key file from whoever trains or attacks the model.
    """
    done = planting.plant(settings, track=output.track)
    output.document(done)
    drawn = "by the system's random generator" if settings.seed is None else f"with seed {settings.seed}"
    if settings.audit is not None:
        output.show(
            f"Made {counted(done.canaries, 'canary', 'canaries')} ({settings.design.value}) and flipped a fair "
            f"coin for each: plant it among the {counted(done.size, 'record')}, or leave it out. {done.corpus} "
            f"now has {counted(done.records, 'record')}.",
            f"The canaries and coins are in {done.key}: keep it from whoever trains. They were drawn {drawn}.",
            *_how_to_train(settings),
            f"After training: reticent audit RUN --canaries {done.key} --train {done.corpus} "
            "--holdout FILE --out DIR",
            *_ownerless(settings, done),
        )
        return
    times = "once" if done.copies == 1 else f"{done.copies:,} times"
    output.show(
        f"Planted {counted(done.canaries, 'canary', 'canaries')}, {times} each, among "
        f"{counted(done.size, 'record')}. {done.corpus} has {counted(done.records, 'record')}.",
        f"Each secret has {done.bits:.2f} bits. The secrets are in {done.key}: keep it from whoever trains or "
        "attacks.",
        f"The secrets and their positions were drawn {drawn}.",
        *_ownerless(settings, done),
    )


def _ownerless(settings: PlantSettings, done: Planted) -> list[str]:
    """That --owner canary makes no owners of a corpus that has none."""
    if settings.owner is CanaryOwner.COPY or done.names_owners:
        return []
    return [
        "The corpus names no owners: only its canaries have some, and `train --unit owner` will refuse it. If a "
        "field holds owners, name it with --owner-field."
    ]


def _how_to_train(settings: PlantSettings) -> list[str]:
    """Where to start from, if the vocabulary has grown."""
    if settings.grown_model is None:
        return []
    return [
        f"Train all weights of the model with the new tokens, and truncate texts to the length of a canary: "
        f"reticent train --model {settings.grown_model} --max-length {settings.length} ..."
    ]
