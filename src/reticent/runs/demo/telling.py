"""The story itself: plant → train four ways → attack each → compare with what was proved → one page.

DIR/  train.jsonl  holdout.jsonl  utility.jsonl  customers.txt  canaries.json (what was planted, in clear)
      undefended/  dp-sgd/  crt/  submix/       runs of `reticent train`
      audit-NAME/  update-NAME/                 runs of `reticent audit` and `reticent diff`
      report.html  report.md
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reticent.auditing.subject import ModelPlace
from reticent.core.document import number_to_json, write_atomically
from reticent.core.estimate import Estimate
from reticent.core.finding import Finding
from reticent.core.guarantee import Guarantee
from reticent.data.reading.corpus_file import open_corpus
from reticent.models.embedded import EMBEDDED
from reticent.models.huggingface.loading import load_model
from reticent.models.huggingface.model import HuggingFaceModel
from reticent.reporting.formats.markdown import render_markdown
from reticent.reporting.formats.page import render_page
from reticent.runs.audit.run import Audit
from reticent.runs.audit.run import Observer as AuditObserver
from reticent.runs.audit.subject import find_model
from reticent.runs.demo.answers import perplexities, private_answers
from reticent.runs.demo.audits import OF_PUBLIC, Auditor
from reticent.runs.demo.corpora import Corpora, write_corpora
from reticent.runs.demo.scale import EPSILON, SMALL_EPSILON, TARGETS, Recipes
from reticent.runs.demo.settings import DemoSettings
from reticent.runs.demo.story import Story, Told, allowed_hit_rate
from reticent.runs.directory import RunDirectory
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.report.reading import read_report, record_ids
from reticent.runs.report.texts import read_facts
from reticent.runs.training import run as training_run
from reticent.runs.training.result import Observer
from reticent.runs.training.settings import TrainSettings
from reticent.training.batches import encode_texts
from reticent.training.evaluation import Evaluation, evaluate

PUBLIC: Final = "public"
UNDEFENDED: Final = "undefended"
DP_SGD: Final = "dp-sgd"
CRT: Final = "crt"
SUBMIX: Final = "submix"
STAGES: Final = 9  # trainings, audits and pages that `Watch.stage` hears of


@dataclass(frozen=True, slots=True)
class Watch:
    """Who hears how far the story is: of a new stage by name, of a training's steps, of an audit's attacks."""

    stage: Callable[[str], None]
    training: Callable[[str], Observer]
    audit: Callable[[str], AuditObserver]


def tell(settings: DemoSettings, *, watch: Watch) -> Story:
    """Tell the story: write the corpora, train, attack, and write the report."""
    folder, source, seed, scale = settings.folder, settings.model or EMBEDDED, settings.seed, settings.sizes
    watch.stage("writing dialogues")
    corpora = write_corpora(folder, seed=seed, scale=scale)
    recipes = Recipes(folder, source, scale, owners=len(corpora.train.owners), seed=seed)
    auditor = Auditor(folder, corpora, scale, seed, watch.audit)
    teller = _Teller(corpora, auditor, watch)
    models = [teller.public(source)]
    trainings = ((UNDEFENDED, recipes.undefended()), (DP_SGD, recipes.dp_sgd()), (CRT, recipes.crt()))
    models += [teller.trained(name, config, source) for name, config in trainings]
    models += teller.answering(recipes)
    watch.stage("writing the report")
    page = _write_report(folder)
    return Story(tuple(models), corpora.canaries[0].bits, folder, page)


@dataclass(frozen=True, slots=True)
class _Teller:
    """Trains and attacks one model after the other."""

    corpora: Corpora
    auditor: Auditor
    watch: Watch

    def public(self, source: str) -> Told:
        """The model before anything was learnt: what attacks find where nothing leaks."""
        self.watch.stage("the public model, attacked")
        model = load_model(find_model(source).source)
        assert isinstance(model, HuggingFaceModel)
        quality = evaluate(model.module, encode_texts(model, self.corpora.utility))
        audit = self.auditor.audit_model(PUBLIC, source, attacks=OF_PUBLIC)
        return self._told(PUBLIC, _perplexity(quality), audit, None)

    def trained(self, name: str, config: TrainSettings, source: str) -> Told:
        """A model trained by the recipe, and attacked."""
        self.watch.stage(f"{name}, trained and attacked")
        run = self.auditor.folder / name
        result = training_run.train(config.into(run), observe=self.watch.training(name))
        assert result.evaluation is not None
        audit = self.auditor.audit_model(name, str(run))
        # Redacted training adds a token of its own, so its snapshots cannot be compared token by token.
        update = () if name == CRT else self.auditor.compare_update(name, find_model(source).source, str(run))
        return self._told(name, _perplexity(result.evaluation), audit, result.guarantee, update)

    def answering(self, recipes: Recipes) -> list[Told]:
        """The ensemble's answers at a small and a larger ε."""
        self.watch.stage("the parts of an ensemble, trained")
        parts = self.auditor.folder / SUBMIX
        training_run.train(recipes.parts().into(parts), observe=self.watch.training(SUBMIX))
        ensemble = load_ensemble(parts)
        epsilons = (SMALL_EPSILON, EPSILON)
        self.watch.stage("the ensemble's answers, measured")
        useful, tokens = perplexities(ensemble, self.corpora, epsilons, seed=recipes.seed)
        self.watch.stage("the ensemble's answers, attacked")
        told = []
        for epsilon in epsilons:
            name = f"submix-f-{epsilon:g}"
            run = RunDirectory.create(self.auditor.folder / name)
            with private_answers(ensemble, run, epsilon=epsilon, scale=recipes.scale) as (answers, promise):
                audit = self.auditor.audit_answers(name, answers, ModelPlace(str(run.path), promise))
            spread = useful[epsilon].spread
            ends = [number_to_json(spread.low), number_to_json(spread.high)]
            run.finish(evaluation={"perplexity": spread.value, "perplexity_interval": ends, "tokens": tokens})
            told.append(self._told(name, Estimate(spread.value, spread.low, spread.high), audit, promise))
        return told

    def _told(
        self,
        name: str,
        perplexity: Estimate,
        audit: Audit,
        guarantee: Guarantee | None,
        update: tuple[Finding, ...] = (),
    ) -> Told:
        canaries = self.corpora.canaries
        allowed = None
        if guarantee is not None:
            allowed = allowed_hit_rate(guarantee, bits=canaries[0].bits, codes=len(canaries))
        return Told(
            name=name,
            perplexity=perplexity,
            findings=(*audit.findings, *update),
            comparisons=audit.comparisons,
            guarantee=guarantee,
            allowed=allowed,
        )


def _perplexity(quality: Evaluation) -> Estimate:
    return Estimate(quality.perplexity, *quality.perplexity_interval)


def _write_report(folder: Path) -> Path:
    """The page of all audits and updates, side by side; no text and no secret in it."""
    order = [f"audit-{name}" for name in (UNDEFENDED, DP_SGD, CRT)]
    order += [f"audit-submix-f-{epsilon:g}" for epsilon in (SMALL_EPSILON, EPSILON)]
    order += [f"update-{UNDEFENDED}", f"audit-{PUBLIC}"]
    runs = [folder / name for name in order]
    facts = read_facts(open_corpus(folder / TARGETS), "patterns", ids=record_ids(runs))
    found = read_report(runs, facts=facts)
    page = folder / "report.html"
    write_atomically(page, render_page(found).encode("utf8"), mode=0o600)
    write_atomically(page.with_suffix(".md"), render_markdown(found).encode("utf8"), mode=0o600)
    return page
