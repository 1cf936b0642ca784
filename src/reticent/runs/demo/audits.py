"""The audits of the demo: the journeys of `reticent audit` and `reticent diff`, at the demo's sizes."""

from dataclasses import dataclass
from pathlib import Path

from reticent.auditing.settings import AttackSettings
from reticent.auditing.subject import ModelPlace, make_subject
from reticent.core.finding import Finding
from reticent.core.model import TextModel
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.attacking import Audit, Observer, run_audit, start_run, write_audit
from reticent.runs.audit.plan import measure_speed, plan_audit
from reticent.runs.audit.subject import Opened, open_models
from reticent.runs.demo.corpora import Corpora
from reticent.runs.demo.scale import HOLDOUT, KEY, TARGETS, Scale
from reticent.runs.update.comparing import Known, PhraseSearch, compare_snapshots, start_diff, write_diff

ATTACKS = ("exposure", "codes", "membership", "lazy", "pii")
OF_PUBLIC = ("exposure", "codes", "membership")
OF_TEXT = ("codes",)


@dataclass(frozen=True, slots=True)
class Auditor:
    """What all audits of one story share."""

    folder: Path
    corpora: Corpora
    scale: Scale
    seed: int
    observe: Observer

    def audit_model(self, name: str, source: str, *, attacks: tuple[str, ...] = ATTACKS) -> Audit:
        """Attacks of the story on a model, by name or run directory; findings in `audit-NAME`."""
        return self._audit(name, source, open_models(source, None), attacks)

    def audit_answers(self, name: str, model: TextModel, place: ModelPlace) -> Audit:
        """The attacks that need nothing but answers; the ledger of these answers stands beside the findings."""
        return self._audit(name, place.source, Opened(model, None, place), OF_TEXT)

    def _audit(self, name: str, source: str, opened: Opened, attacks: tuple[str, ...]) -> Audit:
        subject = make_subject(
            opened.model,
            opened.base,
            training=self.corpora.targets,
            held_out=self.corpora.holdout,
            canaries=self.corpora.canaries,
            place=opened.place,
        )
        settings = AttackSettings(attacks=attacks, sizes=self.scale.sizes, seed=self.seed)
        config = {
            "model": source,
            "base": None if subject.base is None else subject.base.name,
            "train": str(self.folder / TARGETS),
            "holdout": str(self.folder / HOLDOUT),
            "canaries": str(self.folder / KEY),
            "attacks": list(attacks),
            "records": settings.sizes.records,
            "samples": settings.samples,
            "policy": settings.policy,
        }
        plan = plan_audit(subject, settings, measure_speed(subject))
        run = start_run(self.folder / f"audit-{name}", subject=subject, settings=settings, config=config)
        found = run_audit(subject, plan, settings=settings, observe=self.observe)
        write_audit(run, found, subject=subject, settings=settings)
        return found

    def compare_update(self, name: str, before: str, after: str) -> tuple[Finding, ...]:
        """What the change from one model to the other reveals about the training text; written to `update-NAME`."""
        settings = PhraseSearch(width=self.scale.beam, seed=self.seed)
        known = Known(update=self.corpora.targets, untouched=self.corpora.holdout)
        config = {
            "snapshots": [before, after],
            "data": str(self.folder / TARGETS),
            "untouched": str(self.folder / HOLDOUT),
            "length": settings.length,
            "width": settings.width,
        }
        models = [load_model(before), load_model(Path(after) / "model", name=after)]
        run = start_diff(self.folder / f"update-{name}", settings=settings, config=config, known=known)
        steps = compare_snapshots(models, settings, known=known)
        write_diff(run, steps, settings=settings, reveal=False)
        return steps[0].findings
