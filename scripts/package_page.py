"""The README as a package page shows it: links to files of the repository become the names of those files.

The project has no public address, so that a link to `docs/guarantees.md` leads nowhere on a package index. Whoever
has the source distribution finds the file under its name. The build calls this (hatch's metadata hook).
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"!?\[([^\]]+)\]\((?![a-z]+:|#)([^)#]+)(?:#[^)]*)?\)")


def package_page(readme: str) -> str:
    """The README without relative links."""

    def named(match: re.Match[str]) -> str:
        text, target = match.groups()
        return f"`{target}`" if text.strip("`") == target else f"{text} (`{target}`)"

    return _RELATIVE.sub(named, readme)


class CustomMetadataHook(MetadataHookInterface):
    """Sets the description of the distributions."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatch with the metadata of the project."""
        text = Path(self.root, "README.md").read_text(encoding="utf8")
        metadata["readme"] = {"content-type": "text/markdown", "text": package_page(text)}
