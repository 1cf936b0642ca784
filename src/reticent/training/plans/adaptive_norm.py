"""A clip norm that follows a quantile of the gradients' norms, learnt from noisy counts (Andrew et al. 2021).

    vote of a unit       v = min(½, max(−½, 1 − ‖g‖/C))           ½ where its gradient is short, −½ where it is long
    released in a step   Σ clipped gradients + N(0, (z_g C)²)  and  Σ v + N(0, σ_b²)
    next norm            C · exp(−η (b − γ)),  b = ½ + noisy count / expected batch,  η = 0.2, γ the quantile
    gradient's noise     z_g = (z⁻² − (2σ_b)⁻²)^(−½)

Gradient and count are one Gaussian release of noise multiplier z. A unit that takes part in a step adds the vector

    h = (clipped gradient / C · z/z_g,  v · z/σ_b)        ‖h‖² ≤ z²/z_g² + z²/(4σ_b²) = 1

and the step releases Σ h + N(0, z² I), scaled by numbers that were known before it: C follows from earlier
releases. So this is DP-SGD with clip norm 1 in one dimension more. Whatever is proved of that holds, for a unit
that is added, removed or replaced (which moves the sum by h − h', of norm at most 2): event and price stay as they
are.

The paper's votes are ½ or −½ alone. There, rounding that depends on who else is in a batch could turn the vote of a
unit whose norm is close to C, and those of all of its copies. Here a vote moves by no more than the norm does,
relative to C, so that the room for rounding holds for counts as well (`gradients.rounding`). For norms beyond
½ C and 1½ C the two are the same; between, the quantile is a smoothed one.
"""

import math
from typing import Final

from reticent.core.errors import ConfigError
from reticent.core.ranges import NORM, QUANTILE

RATE: Final = 0.2  # η of the paper
GREATEST_VOTE: Final = 0.5
_COUNTED: Final = 20.0  # the paper's noise on a count: a twentieth of the expected batch
_LIGHT: Final = 2.0  # in noise multipliers: so much noise on the count raises the gradient's by 3 %


def check_moving_norm(
    quantile: float | None,
    count_noise: float | None,
    *,
    correlated: bool,
    canaries: bool,
    individual: bool,
    proved_rounding: bool,
) -> None:
    """Refuse what was not proved together with a clip norm that follows a quantile; None is a norm that stays."""
    if quantile is None:
        if count_noise is not None:
            raise ConfigError(
                "noise on counts (--count-noise) needs a clip norm that follows a quantile (--clip-quantile)",
                hint="give both, or neither",
            )
        return
    QUANTILE.require("the quantile that the clip norm follows (--clip-quantile)", quantile)
    others = {
        "correlated noise (--sampler banded)": correlated,
        "gradient canaries (--audit)": canaries,
        "individual accounting (--individual-accounting)": individual,
        "proved rounding (--rounding proved)": proved_rounding,
    }
    for name, is_asked in others.items():
        if is_asked:
            raise ConfigError(
                f"a clip norm that follows a quantile (--clip-quantile) was not proved together with {name}",
                hint="leave one of them out",
            )


def usual_count_noise(noise_multiplier: float, expected_batch: float) -> float:
    """The paper's noise on the count, or as much as leaves the gradient's nearly as it was, if that is more."""
    return max(expected_batch / _COUNTED, _LIGHT * noise_multiplier)


def raised_multiplier(noise_multiplier: float, count_noise: float) -> float:
    """Noise multiplier of the gradients' sum, where a count with noise of this deviation is released beside it.

    Guarantee: both together are one Gaussian release of `noise_multiplier`: a unit's joint contribution, each part
    over the deviation of its noise, has norm at most 1 / `noise_multiplier`.
    """
    least = GREATEST_VOTE * noise_multiplier
    if not least < count_noise < math.inf:
        raise ConfigError(
            "the noise on the count of short gradients must exceed half the noise multiplier",
            found=count_noise,
            expected=f"above {least:g}",
            hint=f"--count-noise {_LIGHT * noise_multiplier:.3g} costs the gradients 3 % more noise",
        )
    return noise_multiplier / math.sqrt(1.0 - (least / count_noise) ** 2)


def next_norm(clip_norm: float, noisy_count: float, *, expected_batch: float, quantile: float) -> float:
    """The clip norm of the next step, within the range of norms; `expected_batch` is public, not the one drawn."""
    share = GREATEST_VOTE + noisy_count / expected_batch
    moved = math.log(clip_norm) - RATE * (share - quantile)
    return math.exp(min(math.log(NORM.high), max(math.log(NORM.low), moved)))
