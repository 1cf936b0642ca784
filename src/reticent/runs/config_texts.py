"""Commented TOML files for the journeys that read one: what `reticent init` writes.

Every file says what each value means and what else it may be; a test reads all of them back as
`reticent train --config` does.
"""

from enum import StrEnum
from typing import Final


class Journey(StrEnum):
    """What somebody wants to do."""

    PLAIN = "plain"
    RECORDS = "private-records"
    OWNERS = "private-owners"
    REDACTED = "redacted"
    SELECTIVE = "selective"


_HEAD: Final = """\
# A run of reticent: {what}
#
#   reticent train --config {name} --dry-run      prints the guarantee that would be given, and trains nothing
#   reticent train --config {name} --out runs/1
#   reticent audit runs/1 --train train.jsonl --holdout holdout.jsonl --out runs/1-audit
#   reticent report runs/1-audit --open
#
# Flags override this file. An unknown key is an error.

seed = 0                        # initial weights, shuffling and dropout; noise that protects never comes from it

[data]
file = "train.jsonl"            # JSONL, CSV, TSV, Parquet, text or a folder
holdout = "holdout.jsonl"       # text of the same kind to measure the result on; never trained on
text_field = "text"
id_field = "id"
owner_field = "owner"           # whose text a record is
# max_length = 256              # tokens kept of a text

[model]
source = "embedded"             # a directory, a hub id, "embedded", or "lstm:1x200" for a fresh one
lora_rank = 0                   # above 0: train LoRA layers of this rank alone
precision = "float32"           # or "bfloat16" for forward and backward; norms and noise stay float32
checkpoint_activations = false  # true: compute activations again instead of keeping them; less memory, more time
shard_weights = false           # true: with torchrun, every process stores its part of the weights
device = "auto"

[training]
"""
_STEPS: Final = """\
epochs = 3.0                    # times that a unit takes part, on average
batch = {batch}                      # units a step{average}
optimiser = "adamw"             # or "sgd"
learning_rate = {rate}
decay = "constant"              # or "linear"
"""
_PRIVACY: Final = """\
target_epsilon = 8.0            # the noise is calibrated to it; or fix noise_multiplier instead, never both
# noise_multiplier = 1.0
delta = 1e-5                    # well below 1 / number of records
clip_norm = 1.0                 # the most that one unit may move a step
"""
_POLICY: Final = """\
policy = "patterns"             # finds what is secret; or "dictionary:FILE", or several joined by commas
# labelled = "labelled.jsonl"   # records with spans: measures how much the policy misses
miss_rate = 1.0                 # share of secrets that the policy misses; 1 promises nothing of the policy
"""
_METHODS: Final = {
    Journey.PLAIN: ("plain training, which promises nothing of its text", "sgd", ""),
    Journey.RECORDS: (
        "DP-SGD that protects every record",
        "dp-sgd",
        _PRIVACY + 'unit = "record"\nneighbours = "add-remove"       # or "replace"\n',
    ),
    Journey.OWNERS: (
        "DP-SGD that protects everything of one owner",
        "dp-sgd",
        _PRIVACY + 'unit = "owner"\nneighbours = "add-remove"       # or "replace"\n'
        "texts_per_owner = 4             # the most texts of an owner in a step\n",
    ),
    Journey.REDACTED: (
        "confidentially redacted training (CRT): secrets are cut out, what may be left is trained with noise",
        "crt",
        _PRIVACY
        + _POLICY
        + "# conservative_policy = ...     # what is trained with noise besides; without it, all\n",
    ),
    Journey.SELECTIVE: (
        "selective DP-SGD: noise on what the policy calls secret, none on the rest",
        "selective",
        _PRIVACY + _POLICY + "state_norm = 1.0                # the most of a state that is carried over\n",
    ),
}


def config_text(journey: Journey, *, name: str) -> str:
    """The file for a journey; `name` is what it will be called."""
    what, method, own = _METHODS[journey]
    is_private = bool(own)
    steps = _STEPS.format(
        batch=64 if is_private else 32,
        average=", on average" if is_private else "",
        rate="1e-3 ",
    )
    return f'{_HEAD.format(what=what, name=name)}method = "{method}"\n{steps}{own}'
