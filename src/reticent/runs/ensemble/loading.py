"""A finished ensemble from its run directory, every member's weights checked against the manifest.

Adapters are read in one batch where the base allows it (`models.ensemble.adapters`); whole models, and adapters of
other architectures, one at a time (`models.ensemble.separate`). Both compute the same.
"""

from pathlib import Path

from reticent.core.ensemble import Ensemble
from reticent.core.errors import ConfigError, ModelError
from reticent.models.ensemble.adapters import AdapterEnsemble, EnsembleMember
from reticent.models.ensemble.allocator import keep_freed_memory
from reticent.models.ensemble.separate import SeparateEnsemble
from reticent.models.huggingface.loading import load_model
from reticent.runs.ensemble.manifest import Manifest, finished_member, member_folder


def load_ensemble(run: Path, *, one_batch: bool = True) -> Ensemble:
    """The ensemble of a run, ready to be looked up. `one_batch=False` reads the members one at a time."""
    keep_freed_memory()
    manifest = Manifest.read(run)
    if not manifest.is_complete:
        raise ConfigError(
            f"{run}: this ensemble is not finished",
            found=f"{len(manifest.members)} members",
            hint=f"continue with: reticent train --resume {run}",
        )
    for member in manifest.members:
        if finished_member(run, member.name) != member:
            raise ModelError(f"{run}: the member {member.name} is not the one that the manifest names")
    public = load_model(manifest.base, device=manifest.device, dtype="float32", name=manifest.base)
    if public.fingerprint != manifest.base_fingerprint:
        raise ModelError(f"{manifest.base}: not the model that this ensemble started from")
    members = [
        EnsembleMember(member.part, member_folder(run, member.name) / "model") for member in manifest.members
    ]
    if manifest.lora_rank and one_batch:
        try:
            return AdapterEnsemble(public, members, parts=manifest.part_names)
        except ModelError:  # an architecture that is not read in one batch
            public = load_model(manifest.base, device=manifest.device, dtype="float32", name=manifest.base)
    return SeparateEnsemble.load(public, members, parts=manifest.part_names)
