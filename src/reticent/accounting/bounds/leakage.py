"""How many bits of a secret can leak: upper bounds for a secret of b bits, p0 = 2^−b (Stock et al. 2022).

p1 = E_θ f_θ(s) is the chance, over training too, that an attack on a model trained with the secret emits it; p0 the
same without it. Emitting is post-processing, so each of these bounds L = log(p1/p0), capped at log(1/p0) as p1 ≤ 1:

    rdp          inf_a  d_a (a − 1)/a + log(1/p0)/a
    binary_rdp   inf_a  of the binary Rényi inequality solved for p1 (`binary_renyi`): tighter for short secrets
    pld          min_ε  e^ε p0 + δ(ε) ≥ p1: tightest. Where p0 comes near the round-off of a convolution δ is taken
                 from a tilted one (`tilted`), of Gaussian steps and one copy; where its grid would be too large the
                 bound is weak, and `rdp` is the lesser
    converted    the same with δ(ε) from the Rényi curve, for events without a privacy loss distribution and groups

`traditional` is inf_a d_a + log(1/p0)/(a − 1), what ε at δ = p0 says: for comparison, never tighter, not capped.

A secret in κ records is a group. Rényi bounds do not scale linearly with groups, so for copies > 1 they are left
out. What is given is the lesser of two: what (ε, δ)-DP proves for groups, and, for Gaussian steps, the loss
distribution of the group itself, of which each record is sampled by itself (`prices.sampled_group`).

p1 is a mean over models: averaging logarithms instead, or taking one model, understates it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reticent.accounting.bounds.approximate import log_probability_bound
from reticent.accounting.bounds.binary_renyi import least_log_probability, least_log_probability_on
from reticent.accounting.conversion import rdp_delta
from reticent.accounting.curve import RenyiCurve
from reticent.accounting.groups import group_event
from reticent.accounting.guarantees import guarantee_of_group
from reticent.accounting.pld import has_privacy_profile, privacy_profile
from reticent.accounting.search import least_between
from reticent.accounting.tilted import tilted_log_probability
from reticent.core.choice import member_of
from reticent.core.event import Event
from reticent.core.guarantee import Guarantee, Neighbours

_LOG2 = math.log(2.0)
_SPENT = 100.0  # times its round-off: a p0 below that is beyond a plain convolution


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakageBounds:
    """Upper bounds in bits on what is learnt about a secret of `secret_bits` that stands in `copies` records.

    None where a bound does not apply. `least` is the one to quote.
    """

    secret_bits: float
    copies: int = 1
    rdp: float | None = None
    binary_rdp: float | None = None
    pld: float | None = None
    converted: float | None = None
    traditional: float | None = None

    @property
    def bounds(self) -> dict[str, float]:
        """All valid bounds by name, without the traditional one."""
        named = {"rdp": self.rdp, "binary_rdp": self.binary_rdp, "pld": self.pld, "converted": self.converted}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def least(self) -> float:
        """The least of all valid bounds in bits: at most all of the secret."""
        return min([self.secret_bits, *self.bounds.values()])

    @property
    def posterior_bits(self) -> float:
        """Ceiling of log2 p1: the attack emits the secret with chance at most 2^this."""
        return self.least - self.secret_bits


def leakage_bounds(
    event: Event, secret_bits: float, *, neighbours: Neighbours = Neighbours.ADD_REMOVE, copies: int = 1
) -> LeakageBounds:
    """Every bound on what a release leaks about a secret, from the event alone.

    Guarantee: if without the secret's records the attack emits it with chance at most 2^−secret_bits, then with
    them with chance at most 2^posterior_bits; for any attack on what was released.
    """
    neighbours = member_of(Neighbours, neighbours, name="neighbours")
    log_p0 = _log_prior(secret_bits, copies)
    curve = RenyiCurve(event, neighbours)
    has_profile = has_privacy_profile(event)
    profile = _profile_bound(event, log_p0, neighbours=neighbours, copies=copies) if has_profile else None
    if copies > 1:
        grouped = group_event(event, copies)
        if profile is not None and grouped is not None:
            profile = min(profile, _profile_bound(grouped, log_p0, neighbours=neighbours, copies=1))
        converted = None if has_profile else _converted_bound(curve, log_p0, copies)
        return LeakageBounds(secret_bits=secret_bits, copies=copies, pld=profile, converted=converted)
    rdp, _ = curve.minimise(lambda a, d: rdp_leakage(log_p0, a, renyi=d))
    traditional, _ = curve.minimise(lambda a, d: d - _over(log_p0, a - 1.0))
    return LeakageBounds(
        secret_bits=secret_bits,
        rdp=rdp / _LOG2,
        binary_rdp=(least_log_probability_on(curve, log_p0) - log_p0) / _LOG2,
        pld=profile,
        traditional=traditional / _LOG2,
    )


def leakage_of_guarantee(guarantee: Guarantee, secret_bits: float, *, copies: int = 1) -> LeakageBounds:
    """The bounds that a guarantee's own proved points give; never tighter than from the event.

    Guarantee: as `leakage_bounds`, for secrets that stand in `copies` records or owners, of which redacted training
    keeps one.
    """
    log_p0 = _log_prior(secret_bits, copies)
    copies = guarantee.units_of_secret(copies)
    allowed = [log_probability_bound(log_p0, e, delta=d, copies=copies) for e, d in guarantee.points]
    if grouped := guarantee_of_group(guarantee, copies):
        allowed += [log_probability_bound(log_p0, e, delta=d) for e, d in grouped.points]
    profile = (min(allowed) - log_p0) / _LOG2 if allowed else None
    renyi = [(a, d) for a, d in guarantee.renyi_points if math.isfinite(d)]
    if copies > 1 or not renyi:
        return LeakageBounds(secret_bits=secret_bits, copies=copies, pld=profile)
    return LeakageBounds(
        secret_bits=secret_bits,
        rdp=min(rdp_leakage(log_p0, a, renyi=d) for a, d in renyi) / _LOG2,
        binary_rdp=(least_log_probability(log_p0, renyi) - log_p0) / _LOG2,
        pld=profile,
        traditional=min(d - _over(log_p0, a - 1.0) for a, d in renyi) / _LOG2,
    )


def rdp_leakage(log_p0: float, order: float, *, renyi: float) -> float:
    """Nats leaked at one Rényi order: l(a) = d (a − 1)/a + log(1/p0)/a, capped at log(1/p0)."""
    if renyi == math.inf:
        return -log_p0
    share = 1.0 - _over(1.0, order)
    return min(-log_p0, renyi * share - _over(log_p0, order))


def _over(value: float, order: float) -> float:
    """value/order, 0 at the infinite order."""
    return 0.0 if order == math.inf else value / order


def _log_prior(secret_bits: float, copies: int) -> float:
    if not 0.0 < secret_bits < math.inf:
        raise ValueError(f"secret_bits must be positive and finite, found {secret_bits}")
    if copies < 1:
        raise ValueError(f"copies must be at least 1, found {copies}")
    return -secret_bits * _LOG2


def _profile_bound(event: Event, log_p0: float, *, neighbours: Neighbours, copies: int) -> float:
    """The bound in bits from the privacy loss distribution, tilted where the plain one is round-off."""
    profile = privacy_profile(event, neighbours)
    found = _least(profile.delta, profile.points(), log_p0=log_p0, copies=copies)
    if copies == 1 and not profile.is_unprotected and log_p0 < math.log(max(_SPENT * profile.round_off, 5e-324)):
        tilted = tilted_log_probability(event, neighbours, log_p0=log_p0)
        if tilted is not None:
            found = min(found, max(0.0, tilted - log_p0) / _LOG2)
    return found


def _converted_bound(curve: RenyiCurve, log_p0: float, copies: int) -> float:
    """Bits by δ(ε) of the Rényi curve."""
    highest = curve.minimise(lambda a, d: d - _over(log_p0, a - 1.0))[0]
    if not math.isfinite(highest):
        return -log_p0 / _LOG2

    def delta(epsilon: float) -> float:
        return rdp_delta(curve, epsilon=epsilon).value

    grid = [highest * (i / 32.0) ** 1.5 for i in range(33)]
    return _least(delta, [(epsilon, delta(epsilon)) for epsilon in grid], log_p0=log_p0, copies=copies)


def _least(
    delta: Callable[[float], float], points: Sequence[tuple[float, float]], *, log_p0: float, copies: int
) -> float:
    """Least bits over ε: the known (ε, δ) points first, then between the neighbours of the best."""

    def bound(epsilon: float) -> float:
        return log_probability_bound(log_p0, epsilon, delta=delta(epsilon), copies=copies)

    scores = [log_probability_bound(log_p0, e, delta=d, copies=copies) for e, d in points]
    best = min(range(len(points)), key=scores.__getitem__)
    value = scores[best]
    low, high = points[max(best - 1, 0)][0], points[min(best + 1, len(points) - 1)][0]
    if low < high and math.isfinite(value):
        value = min(value, least_between(bound, low, high, within=1e-3)[0])
    return (value - log_p0) / _LOG2
