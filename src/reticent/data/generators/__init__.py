"""Corpora made on the spot, with the exact place and kind of every secret, and a public half that shares no value.

Importing this is cheap; Faker is imported when the first name is drawn.
"""

from reticent.data.generators.cases import generate_cases
from reticent.data.generators.codes import generate_codes
from reticent.data.generators.dialogues import generate_dialogues
from reticent.data.generators.labels import secrets_of

__all__ = ["generate_cases", "generate_codes", "generate_dialogues", "secrets_of"]
