"""What an audit measures: each metric is declared once, with the question it answers and how its values print.

A metric has a name, a scale (per cent, bits, …), the value it takes when nothing leaks (its null), the largest
value it can take, the kind of ceiling a guarantee puts on it, and the words that complete its answer. Metrics
with a parameter hold a place for it: `tpr_at_fpr_{number}` is one metric, and `TPR_AT_FPR.at(0.01)` is the
identifier `tpr_at_fpr_0.01` that a finding carries. `read_metric` is the only parser of such identifiers.

The higher any metric, the more leaks. Nulls, ceilings and the limits of a gate rely on it; a quantity that falls as
more leaks is declared turned round (`novelty_gap` counts what is missing).

A new metric is one declaration here and one place in `QUESTIONS`. A repository test keeps names out of all other
files of the package.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Final

from reticent.core.choice import advice
from reticent.core.errors import ConfigError
from reticent.core.printing.numbers import Scale, interval, shown

_PLACES: Final = {
    "number": r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)",
    "count": r"(\d+)",
    "word": r"([a-z][a-z0-9_]*)",
}


_WORDS: Final = {  # what identifiers shorten
    "auc": "AUC",
    "pii": "PII",
    "epsilon": "ε",
    "gaussian mu": "Gaussian μ",
    "top1": "(top 1)",
    "top5": "(top 5)",
    "tab": "(greedy, TAB)",
    "np": "(n, p)",
}


class Null(StrEnum):
    """Where the value without leakage comes from, for metrics that have no fixed one."""

    CHANCE = "what guessing among the candidates gives"
    RATE = "the false-positive rate itself"
    HELD_OUT = "the upper confidence limit of the same metric on held-out text"
    SNAPSHOTS = "what snapshots without the update show"
    UNKNOWN = "no value is known"


class Ceiling(StrEnum):
    """How a guarantee bounds a metric; the formulas are in `accounting.bounds.ceiling`."""

    RATE = "true-positive rate at a false-positive rate"
    AREA = "area under the ROC curve"
    ADVANTAGE = "total variation between the worlds"
    ACCURACY = "accuracy on equally many members and non-members"
    EPSILON = "ε at the headline's δ"
    EPSILON_AT_DELTA = "least ε at a δ"
    GUESS = "chance of guessing a secret"
    EXPOSURE = "mean exposure of a secret, in bits"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric. `answer` completes "At least 3 % …"; braces in it are filled with the parameters.

    `greatest` is the largest possible value; None where that is log2 of the number of candidates.
    """

    name: str
    scale: Scale
    answer: str = ""
    null: float | Null = Null.UNKNOWN
    greatest: float | None = 1.0
    ceiling: Ceiling | None = None

    def at(self, *parameters: float | str) -> str:
        """The identifier of this metric with its parameters in place."""
        parts = iter(f"{one:g}" if isinstance(one, float) else str(one) for one in parameters)
        identifier = re.sub(r"\{\w+\}", lambda _: next(parts, ""), self.name)
        if next(parts, None) is not None or self.parameters(identifier) is None:
            raise ValueError(f"{self.name} does not take the parameters {parameters}")
        return identifier

    def parameters(self, identifier: str) -> tuple[str, ...] | None:
        """The parameters that an identifier of this metric carries; None for one of another metric."""
        found = self._pattern.fullmatch(identifier)
        return None if found is None else found.groups()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        pieces = re.split(r"\{(\w+)\}", self.name)  # text, kind of place, text, …
        return re.compile(
            "".join(_PLACES[piece] if place % 2 else re.escape(piece) for place, piece in enumerate(pieces))
        )


@dataclass(frozen=True, slots=True)
class MeasuredMetric:
    """A metric with the parameters that its identifier carries."""

    metric: Metric
    parameters: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[float, ...]:
        """The parameters as numbers."""
        return tuple(float(one) for one in self.parameters)

    @property
    def answer(self) -> str:
        """The end of the answer, with the parameters filled in."""
        return self.metric.answer.format(*self.parameters)

    @property
    def null(self) -> float | None:
        """The fixed value that means no leakage, where the metric has one."""
        if self.metric.null is Null.RATE:
            return self.numbers[-1]
        return None if isinstance(self.metric.null, Null) else self.metric.null


_SHARE, _BITS, _CHANCE, _PLAIN = Scale.SHARE, Scale.BITS, Scale.CHANCE, Scale.PLAIN


def _share(name: str, answer: str, *, null: float | Null = Null.UNKNOWN, ceiling: Ceiling | None = None) -> Metric:
    return Metric(name=name, scale=_SHARE, answer=answer, null=null, ceiling=ceiling)


# Planted secrets.
EXPOSURE: Final = Metric(
    name="exposure",
    scale=_BITS,
    answer="of exposure per planted secret, on average",
    null=Null.CHANCE,
    greatest=None,
    ceiling=Ceiling.EXPOSURE,
)
LARGEST_EXPOSURE: Final = Metric(
    name="largest_exposure",
    scale=_BITS,
    answer="of exposure for the most exposed planted secret",
    null=Null.CHANCE,
    greatest=None,
)
CODE_HIT_RATE: Final = _share("code_hit_rate", "of the answers give a planted code", null=Null.CHANCE)

# Personal data.
PII_RECALL: Final = _share(
    "pii_recall", "of the distinct values in the training text were emitted", null=Null.HELD_OUT
)
PII_RECALL_BEYOND_BASE: Final = _share(
    "pii_recall_beyond_base", "of the distinct values were emitted, but not by the base model"
)
PII_PRECISION: Final = _share("pii_precision", "of the distinct emitted values are in the training text")
PII_PRECISION_BEYOND_BASE: Final = _share(
    "pii_precision_beyond_base",
    "of the distinct emitted values are in the training text and are not emitted by the base model",
)
EXTRACTABILITY_CORRELATION: Final = Metric(
    name="extractability_correlation",
    scale=_PLAIN,
    answer="correlation between estimated and observed extraction",
    null=0.0,
)
RECONSTRUCTION_TOP1: Final = _share(
    "reconstruction_top1", "of the masked values were reconstructed", null=Null.HELD_OUT
)
RECONSTRUCTION_TOP5: Final = _share(
    "reconstruction_top5", "of the masked values are among the five best candidates", null=Null.HELD_OUT
)
RECONSTRUCTION_TAB: Final = _share(
    "reconstruction_tab", "of the masked values were reconstructed by greedy decoding", null=Null.HELD_OUT
)
RECONSTRUCTION_GAIN: Final = _share(
    "reconstruction_gain", "more of the masked values were reconstructed than by greedy decoding", null=0.0
)
RECONSTRUCTION_MEMBERSHIP_AUC: Final = Metric(
    name="reconstruction_membership_auc",
    scale=_CHANCE,
    answer="a masked value that was reconstructed is told apart from one that was not",
    null=0.5,
)
INFERENCE_ACCURACY: Final = _share(
    "inference_accuracy",
    "of the masked values were picked correctly from the candidates",
    null=Null.CHANCE,
    ceiling=Ceiling.GUESS,
)
INFERENCE_ACCURACY_TRAINED: Final = _share(
    "inference_accuracy_trained", "of the masked values were picked correctly from the candidates", null=Null.CHANCE
)
ASSOCIATION_SHARE: Final = _share(
    "association_share", "of the person–value pairs were revealed by prompts with the name", null=Null.HELD_OUT
)
PROMPTED_SHARE: Final = _share(
    "prompted_share_{word}",
    "of the person–value pairs were revealed by prompts of the style {}",
    null=Null.HELD_OUT,
)

RECOVERED_SHARE: Final = _share(
    "recovered_share",
    "of the person–value pairs were recovered after fine-tuning on other pairs",
    null=Null.HELD_OUT,
)
ATTRIBUTE_ACCURACY: Final = _share(
    "attribute_accuracy", "of the attributes of made-up authors were inferred from their comments", null=Null.CHANCE
)

# Membership.
TPR_AT_FPR: Final = _share(
    "tpr_at_fpr_{number}",
    "of the members were identified at a false-positive rate of {}",
    null=Null.RATE,
    ceiling=Ceiling.RATE,
)
AUC: Final = Metric(
    name="auc",
    scale=_CHANCE,
    answer="a training text is told apart from a held-out one",
    null=0.5,
    ceiling=Ceiling.AREA,
)
DATASET_AUC: Final = Metric(
    name="dataset_auc", scale=_CHANCE, answer="a record of the corpus is told apart from a held-out one", null=0.5
)
TRAP_AUC: Final = Metric(
    name="trap_auc", scale=_CHANCE, answer="a planted text is told apart from one that was left out", null=0.5
)
MEMBERSHIP_ACCURACY: Final = _share(
    "membership_accuracy", "of the membership guesses were right", null=0.5, ceiling=Ceiling.ACCURACY
)
ADVANTAGE: Final = _share(
    "advantage",
    "more of the members than of the non-members were called members",
    null=0.0,
    ceiling=Ceiling.ADVANTAGE,
)
EPSILON_LOWER_BOUND: Final = Metric(
    name="epsilon_lower_bound", scale=Scale.EPSILON, null=0.0, greatest=math.inf, ceiling=Ceiling.EPSILON
)
EPSILON_LOWER_BOUND_AT_DELTA: Final = Metric(
    name="epsilon_lower_bound_at_delta_{number}",
    scale=Scale.EPSILON,
    null=0.0,
    greatest=math.inf,
    ceiling=Ceiling.EPSILON_AT_DELTA,
)
GAUSSIAN_MU_LOWER_BOUND: Final = Metric(
    name="gaussian_mu_lower_bound",
    scale=_PLAIN,
    answer="for μ of Gaussian differential privacy",
    null=0.0,
    greatest=math.inf,
)

# Membership of groups of records: never set beside a guarantee for one record.
GROUP_TPR_AT_FPR: Final = _share(
    "group_of_{count}_tpr_at_fpr_{number}",
    "of the groups of {} were identified at a false-positive rate of {}",
    null=Null.RATE,
)
GROUP_AUC: Final = Metric(
    name="group_of_{count}_auc",
    scale=_CHANCE,
    answer="a group of {} training texts is told apart from a group of held-out ones",
    null=0.5,
)
GROUP_EPSILON_AT_DELTA: Final = Metric(
    name="group_of_{count}_epsilon_lower_bound_at_delta_{number}",
    scale=Scale.EPSILON,
    null=0.0,
    greatest=math.inf,
)
GROUP_GAUSSIAN_MU: Final = Metric(
    name="group_of_{count}_gaussian_mu_lower_bound", scale=_PLAIN, null=0.0, greatest=math.inf
)
OF_GROUPS: Final = {
    AUC.name: GROUP_AUC,
    TPR_AT_FPR.name: GROUP_TPR_AT_FPR,
    EPSILON_LOWER_BOUND_AT_DELTA.name: GROUP_EPSILON_AT_DELTA,
    GAUSSIAN_MU_LOWER_BOUND.name: GROUP_GAUSSIAN_MU,
}

# Extraction.
EMITTED_SHARE: Final = _share("emitted_share", "of the records would probably be emitted", null=Null.HELD_OUT)
DISCOVERABLE_SHARE: Final = _share("discoverable_share", "of the records", null=Null.HELD_OUT)
NEAR_DISCOVERABLE_SHARE: Final = _share("near_discoverable_share", "of the records", null=Null.HELD_OUT)
NP_DISCOVERABLE_SHARE: Final = _share("np_discoverable_share", "of the records", null=Null.HELD_OUT)
SAMPLED_SHARE: Final = _share("sampled_share", "of the records", null=Null.HELD_OUT)
EXTRACTION_PROBABILITY: Final = _share(
    "extraction_probability", "probability of extracting the secret", null=Null.CHANCE, ceiling=Ceiling.GUESS
)
EXTRACTED_SHARE: Final = _share(
    "extracted_share", "of the records appear in part in the generated texts", null=Null.HELD_OUT
)
EXTRACTION_RATE: Final = _share("extraction_rate", "of the generated texts contain such a piece")
EXTRACTION_PRECISION: Final = _share("extraction_precision_{word}", "of the top-ranked texts contain such a piece")
STYLED_SHARE: Final = _share(
    "styled_share_{word}",
    "of the records were continued word for word when prompted in the style {}",
    null=Null.HELD_OUT,
)
DIVERGENCE_RATE: Final = _share("divergence_rate", "of the answers to repeat prompts contain such a piece")
NOVELTY_GAP: Final = _share(
    "novelty_gap_{count}", "fewer novel sequences of {} words than in held-out text", null=0.0
)

# Updates.
EXPOSED_RECORDS: Final = _share("exposed_records", "of the added records contain a phrase that was found", null=0.0)
BITS_GAINED_PER_TOKEN: Final = Metric(
    name="bits_gained_per_token",
    scale=_BITS,
    answer="per token of an added record, on average",
    null=Null.HELD_OUT,
    greatest=math.inf,
)
LARGEST_DIFFERENTIAL_SCORE: Final = Metric(
    name="largest_differential_score",
    scale=_PLAIN,
    answer="for the highest-scoring phrase",
    null=Null.SNAPSHOTS,
    greatest=math.inf,
)
LARGEST_RELATIVE_SCORE: Final = Metric(
    name="largest_relative_differential_score",
    scale=_PLAIN,
    answer="for the highest-scoring phrase",
    null=Null.SNAPSHOTS,
    greatest=math.inf,
)
UPDATE_AUC: Final = Metric(
    name="update_auc", scale=_CHANCE, answer="an added record is told apart from an untouched one", null=0.5
)


@dataclass(frozen=True)
class Question:
    """A question and the metrics that answer it, the most telling first; those of one row are equally telling."""

    key: str
    text: str
    metrics: tuple[tuple[Metric, ...], ...] = ()

    def row(self, identifier: str) -> int | None:
        """The place of a metric's row, 0 the most telling one; None where it answers another question."""
        found = read_metric(identifier)
        rows = (place for place, row in enumerate(self.metrics) if found is not None and found.metric in row)
        return next(rows, None)

    def measured(self, identifier: str) -> MeasuredMetric | None:
        """The metric of this question with that identifier; None where it answers another one."""
        return None if self.row(identifier) is None else read_metric(identifier)


QUESTIONS: Final = (
    Question(
        "exposure",
        "Does the model memorise secrets planted in its training text?",
        ((EXPOSURE,), (LARGEST_EXPOSURE,)),
    ),
    Question("codes", "Does it complete a planted code when given the words before it?", ((CODE_HIT_RATE,),)),
    Question(
        "pii-extraction",
        "Can personal data in the training text be extracted by sampling?",
        (
            (PII_RECALL,),
            (PII_RECALL_BEYOND_BASE,),
            (PII_PRECISION, PII_PRECISION_BEYOND_BASE),
            (EXTRACTABILITY_CORRELATION,),
        ),
    ),
    Question(
        "pii-reconstruction",
        "Can personal data that was masked in a text be reconstructed?",
        (
            (RECONSTRUCTION_TOP5,),
            (RECONSTRUCTION_TOP1, RECONSTRUCTION_TAB),
            (RECONSTRUCTION_GAIN,),
            (RECONSTRUCTION_MEMBERSHIP_AUC,),
        ),
    ),
    Question(
        "pii-inference",
        "Given a list of candidates, can an attacker pick the value that was masked?",
        ((INFERENCE_ACCURACY, INFERENCE_ACCURACY_TRAINED),),
    ),
    Question(
        "association",
        "Given a person’s name, does the model reveal that person’s data?",
        ((ASSOCIATION_SHARE,), (PROMPTED_SHARE,), (RECOVERED_SHARE,)),
    ),
    Question(
        "attributes",
        "Can the model infer personal attributes that authors do not state?",
        ((ATTRIBUTE_ACCURACY,),),
    ),
    Question(
        "membership",
        "Can an attacker tell which texts the model was trained on?",
        ((TPR_AT_FPR,), (AUC,), (MEMBERSHIP_ACCURACY,), (ADVANTAGE,)),
    ),
    Question("dataset", "Was the corpus used to train the model?", ((DATASET_AUC,), (TRAP_AUC,))),
    Question(
        "group-membership",
        "Can an attacker tell whether a group of texts was trained on?",
        ((GROUP_TPR_AT_FPR,), (GROUP_AUC,), (GROUP_EPSILON_AT_DELTA, GROUP_GAUSSIAN_MU)),
    ),
    Question(
        "epsilon",
        "How large must ε be at least, whatever was claimed?",
        ((EPSILON_LOWER_BOUND, EPSILON_LOWER_BOUND_AT_DELTA), (GAUSSIAN_MU_LOWER_BOUND,)),
    ),
    Question("lazy", "Can whole training records be extracted by sampling?", ((EMITTED_SHARE,),)),
    Question(
        "continuation",
        "Can training records be extracted by prompting with their beginning?",
        (
            (DISCOVERABLE_SHARE, NEAR_DISCOVERABLE_SHARE, NP_DISCOVERABLE_SHARE),
            (SAMPLED_SHARE,),
            (STYLED_SHARE,),
            (EXTRACTION_PROBABILITY,),
        ),
    ),
    Question(
        "generation",
        "Do generated texts contain pieces of training records?",
        ((EXTRACTED_SHARE,), (EXTRACTION_RATE,), (EXTRACTION_PRECISION,), (DIVERGENCE_RATE,)),
    ),
    Question("novelty", "Is generated text less novel than held-out text of the same kind?", ((NOVELTY_GAP,),)),
    Question(
        "update",
        "Does a model update reveal what was added to the training text?",
        (
            (EXPOSED_RECORDS,),
            (BITS_GAINED_PER_TOKEN,),
            (LARGEST_DIFFERENTIAL_SCORE, LARGEST_RELATIVE_SCORE),
            (UPDATE_AUC,),
        ),
    ),
)
METRICS: Final = tuple(metric for question in QUESTIONS for row in question.metrics for metric in row)


@lru_cache(maxsize=4096)
def read_metric(identifier: str) -> MeasuredMetric | None:
    """The declared metric that an identifier names, with its parameters; None if it is not declared."""
    for metric in METRICS:
        parameters = metric.parameters(identifier)
        if parameters is not None:
            return MeasuredMetric(metric, parameters)
    return None


def require_metric(identifier: str) -> None:
    """Refuse a name that is no metric."""
    if read_metric(identifier) is None:
        known = sorted(re.sub(r"\{\w+\}", "0.01", metric.name) for metric in METRICS if metric.ceiling is not None)
        raise ConfigError(f"unknown metric {identifier!r}{advice(identifier, known)}")


def question_of(identifier: str) -> Question:
    """The question that a metric answers, or one made from the name of a metric that nobody declared."""
    for question in QUESTIONS:
        if question.measured(identifier) is not None:
            return question
    return Question(identifier, f"What was measured as “{identifier.replace('_', ' ')}”?")


def words_of(identifier: str) -> str:
    """A metric's name for people: `tpr_at_fpr_0.01` is the true-positive rate at 1 % false positives."""
    words = identifier.replace("_", " ")
    words = re.sub(
        rf"\btpr at fpr {_PLACES['number']}(?!\S)",
        lambda found: f"true-positive rate at {shown(float(found[1]), Scale.SHARE)} false positives",
        words,
    )
    words = re.sub(rf"\bdelta {_PLACES['number']}(?!\S)", lambda found: f"δ = {shown(float(found[1]))}", words)
    words = re.sub(r"^group of (\d+) ", r"groups of \1, ", words)
    for short, long in _WORDS.items():
        words = re.sub(rf"\b{short}\b", long, words)
    return words


def scale_of(identifier: str) -> Scale:
    """What a metric counts in; a plain number if it is not declared."""
    found = read_metric(identifier)
    return Scale.PLAIN if found is None else found.metric.scale


def shown_value(identifier: str, value: float | None, *, digits: int = 3, side: str = "nearest") -> str:
    """A value of the metric as it is printed everywhere."""
    return shown(value, scale_of(identifier), digits=digits, side=side)


def shown_interval(identifier: str, low: float, high: float) -> str:
    """An interval of the metric as it is printed everywhere."""
    return interval(low, high, scale_of(identifier))
