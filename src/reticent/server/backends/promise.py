"""What a server would promise, without loading a model: for `--dry-run` and for the first lines it prints."""

from reticent.core.guarantee import Guarantee
from reticent.prediction.budgets import Kind, Options, Target, set_up
from reticent.prediction.mechanisms.mechanism import Layout
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.ensemble.prediction import with_base
from reticent.server.backends.backend import sentences
from reticent.server.backends.weights import weights_guarantee, weights_notes
from reticent.server.launching import Serving


def promised(serving: Serving) -> tuple[Guarantee | None, list[str]]:
    """The guarantee of all answers together, None where they have none, and what it says in words."""
    settings = serving.settings
    if settings is None:
        guarantee = weights_guarantee(serving.run)
        notes = weights_notes(guarantee, is_filtered=serving.memfree is not None)
        promise = guarantee if serving.memfree is None else None
        return promise, sentences(promise, notes)
    manifest = Manifest.read(serving.run)
    layout = Layout.halves(manifest.parts) if manifest.halves else Layout.single(manifest.parts)
    target = Target(epsilon=settings.epsilon, delta=settings.delta, answers=settings.horizon, unit=settings.unit)
    options = Options(order=settings.order, weight_limit=settings.weight_limit)
    budget = with_base(serving.run, set_up(settings.mechanism, target, layout, options=options)).budget
    notes = ("the public model answers alone",) if settings.mechanism is Kind.PUBLIC else ()
    promise = None if budget is None else budget.guarantee
    return promise, sentences(promise, notes)
