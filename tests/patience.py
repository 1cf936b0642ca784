"""How long a test waits for what must come: as long as a machine ten times slower and busy may need."""

from typing import Final

PATIENCE: Final = 1800.0  # seconds; the limit of a whole test is `timeout` in pyproject.toml
