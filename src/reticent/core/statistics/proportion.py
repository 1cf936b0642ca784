"""Clopper and Pearson's limits for a rate: the one implementation of what every measured rate rests on.

    lower(k of n) = rate p with P[Binomial(n, p) ≥ k] = tail
    upper(k of n) = rate p with P[Binomial(n, p) ≤ k] = tail

Both are quantiles of beta distributions (Clopper and Pearson 1934). All trials are taken as independent. No trial
is no data: the interval is [0, 1], never a point. Other intervals are in `auditing.metrics.intervals`.

Trials of one owner are not independent: whose one text is known has others that are. `Share` counts by owner and
gives the limits of fewer, independent trials n* (Korn and Graubard 1998), k* = n* k/n of them hits:

    lower limit   n* = p(1 − p)/V · (t_n / t_G)²,  at most n;   V: the variance of the share between G owners
    upper limit   n* = n²/Σ nᵢ²,  nᵢ trials of owner i: as if all trials of an owner had one outcome

V is estimated, and badly where few owners have hits; an upper limit that rests on it is too low up to three times
as often as stated. The second n* needs no estimate and is never too large. It also serves where V says nothing (no
hit, or no miss). Owners of one trial each give Clopper and Pearson's limits. All this assumes independent owners.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from reticent.core.printing.numbers import counted


def clopper_pearson(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided interval for the rate behind `successes` of `trials`; [0, 1] where there was no trial.

    Guarantee: contains the true rate with at least `confidence`, for independent trials.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), found {confidence}")
    tail = (1.0 - confidence) / 2.0
    return rate_lower(successes, trials, tail=tail), rate_upper(successes, trials, tail=tail)


def rate_lower(successes: float, trials: float, *, tail: float) -> float:
    """Clopper and Pearson's lower limit alone.

    Guarantee: above the true rate with chance at most `tail`, for independent trials.
    """
    check_counts(successes, trials)
    _check_tail(tail)
    if successes == 0:
        return 0.0
    from scipy.special import betaincinv  # deferred: keeps the command line quick to start

    return float(betaincinv(successes, trials - successes + 1, tail))


def rate_upper(successes: float, trials: float, *, tail: float) -> float:
    """Clopper and Pearson's upper limit alone.

    Guarantee: below the true rate with chance at most `tail`, for independent trials.
    """
    check_counts(successes, trials)
    _check_tail(tail)
    if successes == trials:
        return 1.0
    from scipy.special import betainccinv

    return float(betainccinv(successes + 1, trials - successes, tail))


def effective_trials(sizes: Iterable[int]) -> float:
    """n²/Σ nᵢ² for owners of nᵢ trials: as good as so many independent ones, whatever binds those of an owner.

    Guarantee: a mean over these trials varies at most as one over so many independent ones, for independent owners.
    """
    listed = list(sizes)
    total = sum(listed)
    return total * total / sum(size * size for size in listed) if total else 0.0


@dataclass(frozen=True, slots=True)
class Share:
    """Hits and trials of every owner; without owners every trial is its own."""

    hits_of: tuple[int, ...]
    trials_of: tuple[int, ...]

    def __post_init__(self) -> None:
        for hits, trials in zip(self.hits_of, self.trials_of, strict=True):
            check_counts(hits, trials)

    @classmethod
    def of(cls, outcomes: Iterable[bool], owners: Sequence[Hashable] | None = None) -> "Share":
        """Count outcomes by their owners."""
        listed = [bool(outcome) for outcome in outcomes]
        if owners is None:
            return cls(tuple(map(int, listed)), (1,) * len(listed))
        counts: dict[Hashable, list[int]] = {}
        for is_hit, owner in zip(listed, owners, strict=True):
            pair = counts.setdefault(owner, [0, 0])
            pair[0] += is_hit
            pair[1] += 1
        return cls(tuple(hits for hits, _ in counts.values()), tuple(trials for _, trials in counts.values()))

    @property
    def hits(self) -> int:
        """All hits."""
        return sum(self.hits_of)

    @property
    def trials(self) -> int:
        """All trials."""
        return sum(self.trials_of)

    @property
    def owners(self) -> int:
        """How many owners there are."""
        return len(self.trials_of)

    @property
    def is_owned(self) -> bool:
        """Whether some owner has several trials."""
        return self.owners < self.trials

    @property
    def note(self) -> str:
        """What the interval takes as independent."""
        if not self.is_owned:
            return "records are assumed independent"
        return f"{counted(self.owners, 'owner')}, assumed independent (a record without an owner is its own)"

    def interval(self, *, confidence: float = 0.95) -> tuple[float, float]:
        """Two-sided interval for the rate; [0, 1] where there was no trial.

        Guarantee: exact for owners of one trial each; else approximate, for independent owners, its limits missed
        no more often than stated in the simulations of `tests/auditing/test_owner_nulls.py`.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence must be in (0, 1), found {confidence}")
        tail = (1.0 - confidence) / 2.0
        return self.lower(tail=tail), self.upper(tail=tail)

    def could_pass(self, null: float | None, *, confidence: float) -> bool:
        """Whether hits in every trial would lie above this null: if not, there are too few to tell."""
        perfect = Share(self.trials_of, self.trials_of)
        return null is None or perfect.interval(confidence=confidence)[0] > null

    def lower(self, *, tail: float) -> float:
        """The lower limit alone."""
        hits, trials = self.hits, self.trials
        if not self.is_owned or hits == 0:
            return rate_lower(hits, trials, tail=tail)
        effective = self._estimated_trials(tail)
        return rate_lower(effective * (hits / trials), effective, tail=tail)

    def upper(self, *, tail: float) -> float:
        """The upper limit alone."""
        hits, trials = self.hits, self.trials
        if not self.is_owned or hits == trials:
            return rate_upper(hits, trials, tail=tail)
        effective = effective_trials(self.trials_of)
        return rate_upper(effective * (hits / trials), effective, tail=tail)

    def _estimated_trials(self, tail: float) -> float:
        """Independent trials that would vary as much as the owners do."""
        hits, trials, owners = self.hits, self.trials, self.owners
        rate = hits / trials
        each = zip(self.hits_of, self.trials_of, strict=True)
        squares = sum((mine - rate * size) ** 2 for mine, size in each)
        if owners < 2 or hits == trials or squares == 0.0:
            return effective_trials(self.trials_of)
        from scipy.special import stdtrit

        variance = owners / (owners - 1) * squares / trials**2
        few = float(stdtrit(trials - 1, tail) / stdtrit(owners - 1, tail)) ** 2
        return min(float(trials), rate * (1.0 - rate) / variance) * few


def check_counts(successes: float, trials: float) -> None:
    """Refuse counts that are none."""
    if not 0 <= successes <= trials:
        raise ValueError(f"a rate needs 0 <= successes <= trials, found {successes} of {trials}")


def _check_tail(tail: float) -> None:
    if not 0.0 < tail < 1.0:
        raise ValueError(f"a tail must be in (0, 1), found {tail}")
