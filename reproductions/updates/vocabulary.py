"""A word tokenizer for experiments: the most frequent words of a corpus, one token each, as in the papers.

Words stand between white space; all others are <unk>. The tokenizer is that of a Hugging Face model, so that
whatever is trained with it can be saved and loaded again.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

UNKNOWN: Final = "<unk>"
START: Final = "<s>"
END: Final = "</s>"
SPECIAL: Final = (UNKNOWN, START, END)


def word_tokenizer(texts: Iterable[str], *, size: int) -> Any:
    """A tokenizer of at most `size` tokens, the three special ones included; equal counts by the alphabet."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    counts = Counter(word for text in texts for word in text.split() if word not in SPECIAL)
    words = sorted(counts, key=lambda word: (-counts[word], word))[: size - len(SPECIAL)]
    ids = {word: index for index, word in enumerate([*SPECIAL, *words])}
    raw = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token=UNKNOWN, bos_token=START, eos_token=END)


def known_words(tokenizer: Any) -> frozenset[str]:
    """The words that have a token of their own."""
    return frozenset(tokenizer.get_vocab()) - frozenset(SPECIAL)
