"""Every experiment by name. One that is not built is not listed."""

import difflib
from collections.abc import Sequence
from functools import cache

from reproductions.experiment import Experiment, Paper
from reticent.core import ConfigError


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments, by name, in the order of the papers."""
    from reproductions.crt import amplification as crt_amplification
    from reproductions.crt import attacks as crt_attacks
    from reproductions.pii import defence_table as pii_defence_table
    from reproductions.pii import figures as pii_figures
    from reproductions.rdp import bounds as rdp_bounds
    from reproductions.rdp import models as rdp_models
    from reproductions.rdp import ngram as rdp_ngram
    from reproductions.submix import extraction as submix_extraction
    from reproductions.submix import utility as submix_utility
    from reproductions.updates import canaries as updates_canaries
    from reproductions.updates import phrases as updates_phrases

    modules = (
        rdp_bounds,
        rdp_ngram,
        rdp_models,
        submix_utility,
        submix_extraction,
        pii_defence_table,
        pii_figures,
        updates_canaries,
        updates_phrases,
        crt_attacks,
        crt_amplification,
    )
    every = [experiment for module in modules for experiment in module.EXPERIMENTS]
    if len({one.name for one in every}) != len(every):
        raise ValueError("two experiments have the same name")
    return {one.name: one for one in every}


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """The experiments that `names` name: an experiment, a paper ("rdp") or "all"; each once, in the order above."""
    known = experiments()
    wanted: set[str] = set()
    for name in names:
        papers = [one.name for one in known.values() if name in ("all", one.paper.value)]
        if not papers and name not in known:
            near = difflib.get_close_matches(name, [*known, *(paper.value for paper in Paper), "all"], n=1)
            raise ConfigError(
                "there is no such experiment",
                found=name,
                hint=f"did you mean {near[0]}?" if near else "python -m reproductions list",
            )
        wanted |= set(papers) if papers else {name}
    return tuple(one for one in known.values() if one.name in wanted)
