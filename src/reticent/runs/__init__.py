"""From settings to a run directory and back."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.runs.directory import package_versions as package_versions
    from reticent.runs.policies.by_name import policy_named as policy_named
    from reticent.runs.settings.declaration import option as option
    from reticent.runs.settings.shared import EngineOptions as EngineOptions
    from reticent.runs.settings.shared import Shown as Shown
    from reticent.runs.verifying import CanaryModule as CanaryModule
    from reticent.runs.verifying import noisy_sum_of_update as noisy_sum_of_update

_PLACES = names_by_module(
    __name__,
    {
        "directory": "package_versions",
        "policies.by_name": "policy_named",
        "settings.declaration": "option",
        "settings.shared": "EngineOptions Shown",
        "verifying": "CanaryModule noisy_sum_of_update",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
