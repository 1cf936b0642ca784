"""Random codes in one sentence each, "My number is: 381940": the extraction experiment of SubMix (section 4.2).

Private codes are uniform over all 10^ℓ strings of ℓ digits and distinct, so that a code holds exactly ℓ log2(10)
bits before any attack. No bit of that may go to keeping the halves apart; therefore public codes are told by
their shape: each carries one capital letter, in front or at the end (K48213, 48213K), and can equal no private
code of any length. Public sentences come in many forms; private ones in the one form that is asked for.
"""

from typing import Final

from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.core.secret import PLACEHOLDER, CodeSpace, Secret
from reticent.data.generators.labels import Draft, without_labels
from reticent.data.generators.people import Source
from reticent.data.generators.tail import tail_sizes

TEMPLATE: Final = "My number is: {}"
_PUBLIC_LENGTHS: Final = tuple(range(2, 13))
_PUBLIC_FORMS: Final = (
    "My number is: {}",
    "My ID is: {}",
    "My ID is {}.",
    "My code is: {}",
    "The code is {}.",
    "My PIN is: {}",
    "The number of my card is: {}",
    "My account number is {}.",
    "The password of the door is: {}",
    "My social security number is: {}",
    "Please write down this number: {}",
    "The random number is: {}",
)


def generate_codes(
    count: int,
    *,
    randomness: Randomness,
    private: bool = True,
    length: int = 6,
    template: str = TEMPLATE,
    repeated: bool = True,
) -> Corpus:
    """`count` sentences with a code each; codes repeat with the tail, or never with `repeated=False`.

    The owner of a code holds all sentences that repeat it. `length` and `template` are those of the private half.
    """
    corpus = labelled_codes(
        count, randomness=randomness, private=private, length=length, template=template, repeated=repeated
    )
    return corpus if private else without_labels(corpus)


def labelled_codes(
    count: int,
    *,
    randomness: Randomness,
    private: bool,
    length: int = 6,
    template: str = TEMPLATE,
    repeated: bool = True,
) -> Corpus:
    """As `generate_codes`, with the spans of the public half's codes too: for checks of the generator itself."""
    if template.count(PLACEHOLDER) != 1:
        raise ConfigError("the template of a code needs one place for it", expected=f"exactly one {PLACEHOLDER}")
    sizes = tail_sizes(count, randomness) if repeated else [1] * count
    codes = _private_codes(len(sizes), length, randomness) if private else _public_codes(len(sizes), randomness)
    half = "private" if private else "public"
    lines = [
        (index, code) for index, (code, size) in enumerate(zip(codes, sizes, strict=True)) for _ in range(size)
    ]
    forms = randomness.integers(len(_PUBLIC_FORMS), count).tolist()
    records = []
    for place, at in enumerate(randomness.permutation(count).tolist()):
        index, code = lines[at]
        form = template if private else _PUBLIC_FORMS[forms[place]]
        draft = Draft()
        draft.write(form.replace(PLACEHOLDER, "{code}"), {"code": Secret(code, "CODE")})
        records.append(draft.record(f"{half}/code-{place}", f"{half}/holder-{index}"))
    return Corpus(records)


def _private_codes(count: int, length: int, randomness: Randomness) -> list[str]:
    """Distinct codes, each uniform over the whole space."""
    space = CodeSpace(length)
    if count > space.size:
        raise ConfigError(
            f"there are not that many codes of {length} digits",
            found=count,
            expected=f"at most {space.size}",
            hint="ask for longer codes or fewer records",
        )
    if 2 * count > space.size:  # most of the space is wanted: drawing until something new comes would not end
        return [space.code(index) for index in randomness.permutation(space.size)[:count].tolist()]
    codes: dict[str, None] = {}
    while len(codes) < count:
        codes[space.sample(randomness)] = None
    return list(codes)


def _public_codes(count: int, randomness: Randomness) -> list[str]:
    """Codes of many lengths with a letter in front or at the end, which no private code has."""
    source = Source(randomness, private=False)
    codes: dict[str, None] = {}
    while len(codes) < count:
        digits = source.digits(source.random.choice(_PUBLIC_LENGTHS))
        letter = source.random.choice("ABCDEFGHJKLMNPQRSTUVWXYZ")
        codes[letter + digits if source.random.random() < 0.5 else digits + letter] = None
    return list(codes)
