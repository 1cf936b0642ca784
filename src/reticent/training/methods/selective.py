"""Selective DP-SGD (Shi et al. 2021), the rival of redacted training for the LSTM: segments, plan, and its promise.

A policy marks characters of each text. A position of the model reads one token and is scored on the next; it is
sensitive if either is marked. Texts fall into runs of sensitive and of other positions:

    other runs        trained plainly
    sensitive runs    the gradient of a record's sensitive positions is clipped to C and noised with σC
    between           the state that leaves a sensitive run is clipped to S and noised with σS before it is read

What a change of the marked tokens of one record can move in an epoch is one clipped gradient and one state for each
of at most m sensitive runs: m + 1 Gaussian releases of noise multiplier σ. **Sampling amplifies nothing**: other
runs are trained without noise, so everybody can see which records took part in a step. Hence shuffled epochs, each
record once in each, and the price of epochs × (m + 1) Gaussians under replace-one.

The promise ends at what the policy marks: a secret that it misses is trained on plainly, its ε is infinite. With a
policy that misses nothing, plain redaction would prove ε = 0. This is here to be compared with, not to be used.

Pieces of a text are encoded one by one, so that no token reaches over the edge of a secret.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Final

import numpy as np

from reticent.accounting.calibration import Target, least_noise
from reticent.accounting.guarantees import NOISE
from reticent.accounting.pld import privacy_profile
from reticent.core.corpus import Policy, Record, Span
from reticent.core.document import check_schema
from reticent.core.errors import ConfigError
from reticent.core.event import Gaussian, Repeated
from reticent.core.guarantee import Basis, Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget
from reticent.core.ranges import NOISE_MULTIPLIER, NORM, STEPS
from reticent.data.redaction.masking import find_in, merge_spans
from reticent.training.batches import Encoder, TokenArray, longest_text
from reticent.training.plans.plan import MEASURE, NO_TUNING, PUBLIC_MAKING, SEEDED, ledger_name, noise_deviation
from reticent.training.plans.sampler import ShuffledEpochs

SCHEMA_VERSION: Final = 1
KIND: Final = "selective"
MECHANISM: Final = "selective DP-SGD (rival)"

_MARKS: Final = "where the policy marks something, and how often, may be known to everybody"
_MARKED: Final = "what stands in the marked places of one record, and nothing that the policy does not mark"
_MISSED: Final = "any secret: one that the policy misses is trained on plainly"
# Unlike `plan.ROUNDING`: nothing here tests how batches of runs are rounded.
UNTESTED_ROUNDING: Final = (
    "rounding adds at most 1/128 of each norm to what one record moves a step by, and the noise is larger than "
    "priced by as much; this is not tested and not proved"
)
_CLIPPED: Final = (
    "each record's gradient of sensitive positions, and each state that leaves a sensitive run, is clipped to its "
    "stated norm before noise is added"
)
_LOCAL: Final = "other values in the marked places change nothing of what the policy marks"


@dataclass(frozen=True, slots=True)
class Run:
    """Positions next to each other, all sensitive or all not: what they read and what they are scored on."""

    inputs: TokenArray
    targets: TokenArray
    is_sensitive: bool

    def __repr__(self) -> str:
        return f"Run({len(self)} tokens)"

    def __len__(self) -> int:
        return len(self.targets)


RunText = tuple[Run, ...]


def runs_of(
    model: Encoder, records: Iterable[Record], policy: Policy, *, max_length: int | None = None
) -> list[RunText]:
    """Each text as its runs. `max_length` counts tokens that are not marked: a secret's length cuts nothing off.

    Guarantee: a run that is not sensitive holds no marked token, neither read nor scored, and does not depend on
    what stands in marked places.
    """
    limit = longest_text(model, max_length)
    return [_runs(model, record.text, found, limit) for record, found in find_in(records, policy)]


def _runs(model: Encoder, text: str, found: Iterable[Span], limit: int | None) -> RunText:
    tokens: list[int] = []
    marks: list[bool] = []
    for piece, is_marked in _pieces(text, merge_spans(found)):
        (encoded,) = model.encode([piece])
        tokens += encoded
        marks += [is_marked] * len(encoded)
    if model.end_token is not None:
        tokens.append(model.end_token)
        marks.append(False)
    if limit is not None:
        others = np.cumsum(np.logical_not(marks))  # tokens so far that are not marked
        kept = int(np.searchsorted(others, limit, side="right"))
        tokens, marks = tokens[:kept], marks[:kept]
    if not tokens:
        return ()
    inputs = [model.start_token, *tokens[:-1]]
    sensitive = [mark or before for mark, before in zip(marks, [False, *marks[:-1]], strict=True)]
    runs = []
    at = 0
    for is_sensitive, group in groupby(sensitive):
        end = at + len(list(group))
        pair = np.array(inputs[at:end], dtype=np.int32), np.array(tokens[at:end], dtype=np.int32)
        runs.append(Run(*pair, is_sensitive))
        at = end
    return tuple(runs)


def _pieces(text: str, spans: Sequence[Span]) -> Iterable[tuple[str, bool]]:
    """The text cut at the edges of its spans; whether each piece is one. No empty pieces."""
    at = 0
    for span in spans:
        if span.start > at:
            yield text[at : span.start], False
        yield text[span.start : span.end], True
        at = span.end
    if at < len(text):
        yield text[at:], False


def most_sensitive_runs(texts: Iterable[RunText]) -> int:
    """The greatest number of sensitive runs of any text (m)."""
    return max((sum(run.is_sensitive for run in text) for text in texts), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectivePlan:
    """Shuffled epochs, two clip norms, one noise multiplier, and how much the policy misses (None: unknown)."""

    units: int
    batch: int
    epochs: int
    seed: int
    sensitive_runs: int
    clip_norm: float
    state_norm: float
    noise_multiplier: float
    delta: float
    miss_rate: float | None
    is_local: bool

    def __post_init__(self) -> None:
        NORM.require("the norm that clipping holds a record to", self.clip_norm)
        NORM.require("the norm that clipping holds a state to", self.state_norm)
        NOISE_MULTIPLIER.require("the noise multiplier", self.noise_multiplier, hint="less is no protection")
        if self.epochs < 1 or self.sensitive_runs < 1:
            raise ConfigError(
                "selective training needs an epoch and something sensitive",
                found=f"{self.epochs} epochs, {self.sensitive_runs} sensitive runs",
                hint="where the policy marks nothing, nothing would be protected",
            )
        STEPS.require("the number of steps", self.steps, hint="lower --epochs")
        if not 0.0 < self.delta < 1.0 or not 0.0 <= (self.miss_rate or 0.0) <= 1.0:
            raise ConfigError("delta must be in (0, 1) and the miss rate in [0, 1]")
        _ = self.sampler

    def calibrated(self, epsilon: float) -> "SelectivePlan":
        """The same plan with the least noise whose ε for marked tokens is at most `epsilon`.

        Guarantee: `marked().epsilon` of the returned plan is at most `epsilon`.
        """
        target = Target(epsilon=epsilon, delta=self.delta, sampling_rate=1.0, neighbours=Neighbours.REPLACE)
        return replace(self, noise_multiplier=least_noise(target, steps=self.releases).noise_multiplier)

    @property
    def sampler(self) -> ShuffledEpochs:
        """Which records make each step."""
        return ShuffledEpochs(self.units, self.batch, self.seed)

    @property
    def steps(self) -> int:
        """Number of updates."""
        return self.epochs * self.sampler.steps_per_epoch

    @property
    def releases(self) -> int:
        """Gaussian releases that depend on one record's marked tokens, over the whole run."""
        return self.epochs * (self.sensitive_runs + 1)

    def deviation(self, norm: float) -> float:
        """Standard deviation of the noise on what is clipped to `norm`."""
        return noise_deviation(self.noise_multiplier, norm)

    @property
    def step_event(self) -> Repeated:
        """What one step releases of a record that takes part in it: its states and its gradient."""
        return Repeated(Gaussian(self.noise_multiplier), self.sensitive_runs + 1)

    @property
    def event(self) -> Repeated:
        """What the whole run releases of one record."""
        return Repeated(Gaussian(self.noise_multiplier), self.releases)

    def marked(self, *, is_seeded: bool = False) -> Guarantee:
        """What holds for tokens that the policy marks.

        Guarantee: (ε, δ) for replacing what stands in the marked places of one record, by the privacy loss
        distribution of all Gaussian releases under replace-one; no amplification by sampling is claimed.
        """
        profile = privacy_profile(self.event, Neighbours.REPLACE)
        assumes = [_MARKS, _CLIPPED, NOISE, PUBLIC_MAKING, NO_TUNING, UNTESTED_ROUNDING]
        if not self.is_local:
            assumes.append(_LOCAL)
        if is_seeded:
            assumes.append(SEEDED)
        return Guarantee(
            mechanism=MECHANISM,
            notion=Notion.CONFIDENTIALITY,
            unit=Unit.RECORD,
            neighbours=Neighbours.REPLACE,
            epsilon=profile.epsilon(self.delta),
            delta=self.delta,
            covers=_MARKED,
            assumes=tuple(assumes),
            basis=Basis(event=self.event, delta=self.delta, units=self.units, clip_norm=self.clip_norm),
        )

    def guarantee(self, *, is_seeded: bool = False) -> Guarantee:
        """The headline: what holds for any secret.

        Guarantee: ε = ∞ unless the policy is known to miss nothing; what it misses is not protected at all.
        """
        marked = self.marked(is_seeded=is_seeded)
        if self.miss_rate == 0.0:
            return replace(marked, assumes=(*marked.assumes, "the policy misses no secret"))
        return replace(marked, unit=Unit.SECRET, epsilon=math.inf, delta=0.0, covers=_MISSED)

    def budget(self, *, is_seeded: bool = False) -> Budget:
        """The budget of this plan's ledger: each step once."""
        return Budget(MEASURE, float(self.steps), self.guarantee(is_seeded=is_seeded))

    def ledger_name(self, corpus: str) -> str:
        """The name of the ledger that pays for this plan on the corpus with this fingerprint."""
        return ledger_name(self.to_json(), corpus, kind="selective training")

    def to_json(self) -> dict[str, Any]:
        """A JSON document with a schema version."""
        return {"schema_version": SCHEMA_VERSION, "kind": KIND, **asdict(self)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "SelectivePlan":
        """The plan that `to_json` wrote; an unknown schema version or kind is refused."""
        check_schema(document, SCHEMA_VERSION, kind="selective plan")
        if document["kind"] != KIND:
            raise ConfigError("not a plan of selective training", found=document["kind"], expected=KIND)
        return cls(**{key: value for key, value in document.items() if key not in ("schema_version", "kind")})
