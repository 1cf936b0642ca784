"""Every experiment by name. One that is not built is not listed."""

import difflib
from collections.abc import Sequence
from functools import cache

from reticent.app.experiments.experiment import Experiment, Paper
from reticent.core.errors import ConfigError


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments, by name, in the order of the papers."""
    from reticent.app.experiments import (
        crt_amplification,
        crt_attacks,
        pii_defence_table,
        pii_figures,
        rdp_bounds,
        rdp_models,
        rdp_ngram,
        submix_extraction,
        submix_utility,
        updates_canaries,
        updates_phrases,
    )

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
                hint=f"did you mean {near[0]}?" if near else "reticent reproduce list",
            )
        wanted |= set(papers) if papers else {name}
    return tuple(one for one in known.values() if one.name in wanted)
