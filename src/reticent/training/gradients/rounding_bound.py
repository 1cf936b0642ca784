"""How far norms and sums in float64 can be from those of real numbers: a bound that holds before anything is read.

What the forward and backward of a record leave behind are machine numbers l_t, r_t, and the record's gradient is
by definition G = Σ_t l_t ⊗ r_t in real numbers. From here on everything is float64, u = 2^-53. Write
A = Σ_t ‖l_t‖‖r_t‖ and γ_n = n u / (1 - n u) (Higham 2002, section 3.1: a sum of n products in any order).

1. **Norms.** Each of the products behind ‖G‖² = Σ_ts (l_t·l_s)(r_t·r_s) is at most ‖l_t‖‖l_s‖‖r_t‖‖r_s‖, so the
   computed square is off by at most γ_n A², n ≤ T² + p + q. A gradient that is written out is off by γ_T A,
   and its computed square by (2γ_T + γ_pq + …) A². For T ≤ 2^16 and p·q ≤ 2^31 both are below κ A², κ = 2^-20.
   What clipping reads is the computed square plus κ A², so it is at least ‖G‖². Norm and factor may be rounded to
   float32 then, three times by 2^-24 at most, and the factor is 2^-20 below C over the norm (`clip_factors`): **the
   clipped gradient has norm at most C**, with no condition on G.
2. **Sums.** The same κ keeps a factor c at most C / (√κ A), so c A ≤ 2^10 C. The clipped sum of B records is a sum
   of n products for each entry, in one order or another, and off by at most γ_n Σ_b c_b A_b ≤ γ_n B 2^10 C.

A step with a record and the same step without it are off by that much each:

    movement ≤ C + 2 γ_n B 2^10 C

n counts the positions of a batch in every use of a parameter, and one more for every batch of a step and for the
factor. A record of more than MOST_POSITIONS contributes nothing, and a larger parameter than p·q = MOST_ENTRIES is
refused. B is random: it passes twice its mean plus 1,000
with a chance below 1e-400 (Bernstein), which nothing here can tell from never.
"""

from enum import StrEnum
from typing import Final

CANCELLATION: Final = 2.0**-20  # κ
MOST_POSITIONS: Final = 1 << 16
MOST_ENTRIES: Final = 1 << 31  # of a parameter
_UNIT_ROUND_OFF: Final = 2.0**-53
_REACH: Final = 2.0**10  # 1/√κ


class Rounding(StrEnum):
    """Why the room for rounding is enough: made-up records were tested, or each is computed alone, with a bound."""

    TESTED = "tested"
    PROVED = "proved"


def summation_error(records: float, terms: float) -> float:
    """How far a clipped sum of so many records, made of so many terms an entry, is from its real value, over C.

    Guarantee: an upper bound for every order of summation, with or without fused multiply-adds.
    """
    share = terms * _UNIT_ROUND_OFF
    return share / (1.0 - share) * records * _REACH * (1.0 + 2.0**-10)


def movement_by_rounding(batch: float) -> float:
    """What rounding of norms and sums adds to the movement by one record, over C, at this expected batch."""
    records = 2.0 * batch + 1000.0
    return 2.0 * summation_error(records, MOST_POSITIONS + records + 4)
