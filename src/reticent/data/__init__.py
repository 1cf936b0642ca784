"""Layer 1: corpora in and out, policies, redaction, canaries, splits and corpus generators."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.data.canaries import make_canaries as make_canaries
    from reticent.data.canaries import plant_canaries as plant_canaries
    from reticent.data.generators.cases import generate_cases as generate_cases
    from reticent.data.generators.codes import generate_codes as generate_codes
    from reticent.data.generators.dialogues import generate_dialogues as generate_dialogues
    from reticent.data.measurement import PolicyMeasurement as PolicyMeasurement
    from reticent.data.measurement import measure_policy as measure_policy
    from reticent.data.policies.combined import UnionPolicy as UnionPolicy
    from reticent.data.policies.shapes.patterns import PatternPolicy as PatternPolicy
    from reticent.data.redaction.masking import redact_records as redact_records
    from reticent.data.splits import split_corpus as split_corpus
    from reticent.data.writing import write_corpus as write_corpus

_PLACES = names_by_module(
    __name__,
    {
        "canaries": "make_canaries plant_canaries",
        "generators.cases": "generate_cases",
        "generators.codes": "generate_codes",
        "generators.dialogues": "generate_dialogues",
        "measurement": "PolicyMeasurement measure_policy",
        "policies.combined": "UnionPolicy",
        "policies.shapes.patterns": "PatternPolicy",
        "redaction.masking": "redact_records",
        "splits": "split_corpus",
        "writing": "write_corpus",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
