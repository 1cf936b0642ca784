"""Write docs/schemas: the JSON Schemas of a run's documents, generated from `reticent.runs.schemas`."""

import json
from pathlib import Path

from reticent.runs.schemas import SCHEMAS, VERSION, json_schema

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"


def schema_files() -> dict[str, str]:
    """File name → content."""
    return {
        f"{name.removesuffix('.json')}.v{VERSION}.schema.json": json.dumps(json_schema(name), indent=2) + "\n"
        for name in SCHEMAS
    }


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, content in schema_files().items():
        (FOLDER / file).write_text(content, encoding="utf8")
