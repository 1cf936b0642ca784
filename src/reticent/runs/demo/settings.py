"""The settings of `reticent demo`."""

import itertools
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reticent.core.ranges import SEED
from reticent.runs.settings.declaration import option
from reticent.runs.settings.shared import Shown

if TYPE_CHECKING:
    from reticent.runs.demo.scale import Scale


_FOLDER: Final = "reticent-demo"


class Extent(StrEnum):
    """How large a demo is."""

    QUICK = "quick"
    NORMAL = "normal"
    LARGE = "large"


class DemoSettings(Shown):
    """Everything that `reticent demo` can be asked for."""

    out: Path | None = option(
        "Folder to write.", default=None, metavar="DIR", shown="reticent-demo, or reticent-demo-2 and so on"
    )
    model: str | None = option(
        "Public model to start from: a directory or a hub id.",
        default=None,
        metavar="MODEL",
        shown="the embedded one",
    )
    scale: Extent = option(
        "On two cores quick takes two or three minutes, normal seven, large an hour or more.",
        default=Extent.NORMAL,
    )
    seed: int = option("Random seed of the corpus and of training.", default=7, within=SEED, metavar="N")

    @cached_property
    def folder(self) -> Path:
        """Where the story is written: by default the first folder of its name that is free."""
        if self.out is not None:
            return self.out
        names = (Path(f"{_FOLDER}-{number}" if number > 1 else _FOLDER) for number in itertools.count(1))
        return next(path for path in names if not path.exists())

    @property
    def sizes(self) -> "Scale":
        """How large corpora, trainings and attacks are."""
        from reticent.runs.demo.scale import Scale

        sizes = Scale.of(self.scale)
        if self.model is not None:
            sizes = replace(
                sizes, learning_rate=sizes.learning_rate / 4.0
            )  # larger models are moved with more care
        return sizes

    def check_paths(self) -> None:
        """The folder is free and the model is there: said before torch is loaded."""
        from reticent.models.huggingface.location import locate
        from reticent.runs.directory import RunDirectory

        if self.out is not None:
            RunDirectory.for_new_run(self.out)
        if self.model is not None:
            locate(self.model)
