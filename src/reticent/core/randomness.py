"""Where random numbers come from, and a word that says which.

What protects (noise, Poisson batches, released tokens) draws from the operating system's generator;
experiments draw from a seed so that they can be repeated. Code that releases something asks for
`Randomness.system()` and refuses a seeded one; both offer the same few draws.
"""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.core.arrays import Floats
from reticent.core.noise import gaussian

Shape = int | Sequence[int]

_BLOCK: Final = gaussian.DRAWS << 9  # Gaussians made at once: what fits the processor's cache
_WORTH_COMPILING: Final = 1 << 24  # Gaussians of a process after which their loop is compiled
_SORTED: Final = 4096  # the longest row of chances that is sorted as a whole
_DRAWN_BLOCK: Final = 256  # neighbours of which one is drawn, in a longer row


_drawn = 0  # Gaussians that this process has made


class _Gaussians(Protocol):
    """What makes Gaussians of words, and adds them to what they hide."""

    def gaussians(self, words: gaussian.Words, out: Floats) -> None: ...

    def on_grid(
        self, noise: Floats, exact: gaussian.Exact, deviation: float, grid: float, out: gaussian.Exact
    ) -> None: ...


def _gaussians(count: int) -> _Gaussians:
    """What makes the next `count` Gaussians; compiled where many were drawn. Both give the same bits."""
    global _drawn
    _drawn += count
    if _drawn < _WORTH_COMPILING or find_spec("numba") is None:
        return gaussian
    from reticent.core.noise import compiled

    return compiled


class _Bits(Protocol):
    """A source of 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]: ...


class _SystemBits:
    """OpenSSL's cryptographic generator, seeded and reseeded by the operating system; safe across forks.

    Ten times as fast as asking the kernel for every byte, which matters for noise on millions of weights.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        from ssl import RAND_bytes  # deferred: costs start-up where nothing is drawn

        return np.frombuffer(RAND_bytes(8 * count), dtype=np.uint64)


class _SeededBits:
    """A repeatable stream."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.PCG64DXSM(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)


class Randomness:
    """Uniforms, Gaussians, integers and choices from one source: the system's, or a seed's."""

    def __init__(self, kind: Literal["system", "seeded"], seed: int | None) -> None:
        if (kind == "seeded") != (seed is not None):
            raise ValueError("a seeded source needs a seed and a system source has none")
        self.kind = kind
        self.seed = seed
        self._bits: _Bits = _SystemBits() if seed is None else _SeededBits(seed)

    @classmethod
    def system(cls) -> "Randomness":
        """The operating system's generator: for everything that protects."""
        return cls("system", None)

    @classmethod
    def seeded(cls, seed: int) -> "Randomness":
        """A repeatable source: for experiments only."""
        return cls("seeded", seed)

    def __repr__(self) -> str:
        return "Randomness.system()" if self.seed is None else f"Randomness.seeded({self.seed})"

    @property
    def protects(self) -> bool:
        """Whether draws may be released as the randomness of a guarantee."""
        return self.kind == "system"

    def child(self, name: str) -> "Randomness":
        """An independent source for a named piece of work; the same name gives the same seeded stream."""
        if self.seed is None:
            return Randomness.system()
        digest = hashlib.blake2b(f"{self.seed}\0{name}".encode(), digest_size=8).digest()
        return Randomness.seeded(int.from_bytes(digest, "big"))

    def fresh_seed(self) -> int:
        """A 63-bit seed for a generator of another library (torch, Faker)."""
        return int(self._bits.words(1)[0] >> np.uint64(1))

    def generator(self) -> np.random.Generator:
        """A numpy generator for simulations; not for releases, since its output reveals its state."""
        return np.random.Generator(np.random.PCG64DXSM(self.fresh_seed()))

    def uniform(self, shape: Shape) -> Floats:
        """Uniform on the open interval (0, 1), 52 bits: never 0, never 1, safe to take the logarithm of."""
        words = self._bits.words(int(np.prod(shape))) >> np.uint64(12)
        # 2^52 cells, each represented by its middle: the bits of a float64 in [1, 2), moved down by 1 − 2^-53.
        words |= np.uint64(0x3FF0000000000000)
        cells = words.view(np.float64)
        cells -= 1.0 - 2.0**-53
        return cells.reshape(shape)

    def normal(self, shape: Shape) -> Floats:
        """Standard Gaussian, each value a mixture of 16 independent draws (`core.noise.gaussian`)."""
        total = np.empty(int(np.prod(shape)))
        made_by = _gaussians(len(total))
        for start in range(0, len(total), _BLOCK):
            self._draw(total[start : start + _BLOCK], made_by)
        return total.reshape(shape)

    def noisy(self, exact: gaussian.Exact, deviation: float, *, grid: float) -> gaussian.Exact:
        """A row of exact numbers with Gaussian noise of this deviation, rounded to a grid: `gaussian.on_grid`."""
        made_by = _gaussians(len(exact))
        made, noise = np.empty_like(exact), np.empty(_BLOCK)
        for start in range(0, len(exact), _BLOCK):
            block = exact[start : start + _BLOCK]
            drawn = noise[: len(block)]
            self._draw(drawn, made_by)
            made_by.on_grid(drawn, block, deviation, grid, made[start : start + _BLOCK])
        return made

    def _draw(self, out: Floats, made_by: _Gaussians) -> None:
        """Fill a row with standard Gaussians. What a last set of them has beyond the row is thrown away."""
        columns = -(-len(out) // gaussian.DRAWS)
        words = self._bits.words(gaussian.WORDS * columns).reshape(gaussian.WORDS, columns)
        is_whole = len(out) == gaussian.DRAWS * columns
        drawn = out if is_whole else np.empty(gaussian.DRAWS * columns)
        made_by.gaussians(words, drawn.reshape(gaussian.DRAWS, columns))
        if not is_whole:
            out[:] = drawn[: len(out)]

    def integers(self, high: int, shape: Shape) -> NDArray[np.int64]:
        """Uniform integers in [0, high), without modulo bias."""
        if not 1 <= high <= 2**62:
            raise ValueError(f"high must be in [1, 2^62], found {high}")
        count = int(np.prod(shape))
        limit = np.uint64(2**64 // high * high - 1)
        drawn = self._bits.words(count).copy()
        while (rejected := drawn > limit).any():
            drawn[rejected] = self._bits.words(int(rejected.sum()))
        return (drawn % np.uint64(high)).astype(np.int64).reshape(shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniformly random order of 0..n-1, by sorting random words (ties have chance n²/2^65)."""
        return np.argsort(self._bits.words(n), kind="stable")

    def bernoulli(self, rate: float, n: int) -> NDArray[np.int64]:
        """Indices of a Poisson sample of 0..n-1: each is in it with chance `rate`, independently."""
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"rate must be in [0, 1], found {rate}")
        return np.flatnonzero(self.uniform(n) < rate)

    def choice(self, probabilities: Floats) -> int:
        """An index drawn from a float64 pmf, by cumulative sums of the very array that is given.

        Sums go from the least chance to the greatest, and draws are fine near 0: every entry above 0 can be drawn,
        with its chance up to the rounding of float64, however small it is. Of a long row first a block is drawn.
        """
        pmf = np.asarray(probabilities, dtype=np.float64)
        if pmf.ndim != 1 or not len(pmf) or not (pmf.min() >= 0.0 and abs(pmf.sum() - 1.0) <= 1e-9):
            raise ValueError("choice needs one finite, non-negative row that sums to 1")
        if len(pmf) <= _SORTED:
            return self._choice_from(pmf)
        start = _DRAWN_BLOCK * self._choice_from(np.add.reduceat(pmf, np.arange(0, len(pmf), _DRAWN_BLOCK)))
        return start + self._choice_from(pmf[start : start + _DRAWN_BLOCK])

    def _choice_from(self, masses: Floats) -> int:
        """An index of a row of masses, drawn in proportion to them."""
        order = masses.argsort()
        cumulative = masses[order].cumsum()
        drawn = self._fine_uniform() * cumulative[-1]
        place = int(cumulative.searchsorted(drawn, side="right"))
        return int(order[min(place, len(order) - 1)])  # a product that rounds up to the whole sum

    def _fine_uniform(self) -> float:
        """Uniform on (0, 1) with 52 bits below its leading one: a coin for each halving says how small it is."""
        halvings = 0
        while halvings < 1000:
            word = int(self._bits.words(1)[0])
            if word:
                halvings += 64 - word.bit_length()
                break
            halvings += 64
        mantissa = 1.0 + (int(self._bits.words(1)[0]) >> 12) * 2.0**-52  # in [1, 2)
        return float(mantissa * 2.0 ** -(halvings + 1))
