"""`reticent plant`: a corpus with canaries, and the key file that names them."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.runs.corpus import plant as planting
from reticent.runs.corpus.plant import PlantSettings


@verb(PlantSettings)
def plant(settings: PlantSettings, output: Output) -> None:
    """Write a corpus with planted canaries, and the key file that names them.

    Keep the key file from whoever trains or attacks the model.
    """
    done = planting.plant(settings, track=output.track)
    output.document(done.to_json())
    output.show(
        f"Planted {done.canaries} canaries {done.copies} times each among {done.size:,} records: "
        f"{done.records:,} records in {done.corpus}.",
        f"Each secret has {done.bits:.2f} bits. The secrets stand in {done.key}: keep it from whoever trains or "
        "attacks.",
        "The secrets and their places were drawn from "
        f"{'the system' if settings.seed is None else f'seed {settings.seed}'}.",
    )
