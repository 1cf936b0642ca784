"""Clopper and Pearson's limits for a rate: the one implementation of what every measured rate rests on.

    lower(k of n) = rate p with P[Binomial(n, p) ≥ k] = tail
    upper(k of n) = rate p with P[Binomial(n, p) ≤ k] = tail

Both are quantiles of beta distributions (Clopper and Pearson 1934). All trials are taken as independent. No trial
is no data: the interval is [0, 1], never a point. Other intervals are in `auditing.intervals`.
"""


def clopper_pearson(successes: int, trials: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided interval for the rate behind `successes` of `trials`; [0, 1] where there was no trial.

    Guarantee: contains the true rate with at least `confidence`, for independent trials.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1), found {confidence}")
    tail = (1.0 - confidence) / 2.0
    return rate_lower(successes, trials, tail=tail), rate_upper(successes, trials, tail=tail)


def rate_lower(successes: int, trials: int, *, tail: float) -> float:
    """Clopper and Pearson's lower limit alone.

    Guarantee: above the true rate with chance at most `tail`, for independent trials.
    """
    check_counts(successes, trials)
    _check_tail(tail)
    if successes == 0:
        return 0.0
    from scipy.special import betaincinv  # deferred: keeps the command line quick to start

    return float(betaincinv(successes, trials - successes + 1, tail))


def rate_upper(successes: int, trials: int, *, tail: float) -> float:
    """Clopper and Pearson's upper limit alone.

    Guarantee: below the true rate with chance at most `tail`, for independent trials.
    """
    check_counts(successes, trials)
    _check_tail(tail)
    if successes == trials:
        return 1.0
    from scipy.special import betainccinv

    return float(betainccinv(successes + 1, trials - successes, tail))


def check_counts(successes: int, trials: int) -> None:
    """Refuse counts that are none."""
    if not 0 <= successes <= trials:
        raise ValueError(f"a rate needs 0 <= successes <= trials, found {successes} of {trials}")


def _check_tail(tail: float) -> None:
    if not 0.0 < tail < 1.0:
        raise ValueError(f"a tail must be in (0, 1), found {tail}")
