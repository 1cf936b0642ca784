"""The settings of `reticent audit`; what they ask of its attacks is in `AttackSettings`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reticent.auditing.attacks.personal_data.contexts import OtherValues
from reticent.core.errors import ConfigError
from reticent.core.ranges import COUNT, SEED, Range
from reticent.runs.audit.registry import OPT_IN, USUAL, WITH_POLICY, parse_attacks
from reticent.runs.directory import RunDirectory
from reticent.runs.policies.by_name import DEFAULT_POLICY, POLICY_HELP
from reticent.runs.settings.declaration import option
from reticent.runs.settings.gate import GateOptions
from reticent.runs.settings.shared import CorpusOptions, EngineOptions, LogOptions, PatternOptions, Shown

if TYPE_CHECKING:
    from reticent.auditing.settings import AttackSettings
    from reticent.core.sampling import Sampling

_ATTACKS: Final = "Attacks"
_SERVED: Final = "Served models"
# Not in the record of a run: said elsewhere in it, or about this machine, or about how the result is shown.
_UNRECORDED: Final = {"out", "seed", "cache", "no_cache", "journal", "junit", "sarif"}


class AuditSettings(PatternOptions, CorpusOptions, EngineOptions, GateOptions, LogOptions, Shown):
    """Everything that `reticent audit` can be asked for."""

    model: str = option(
        "Model to audit: a directory, hub id, run directory, 'embedded', or http://host:port#name of a server.",
        positional=True,
        metavar="MODEL",
    )
    train: Path = option("Corpus that the model was trained on.", metavar="FILE")
    holdout: Path = option("Corpus of the same kind that the model never saw.", metavar="FILE")
    out: Path = option("Run directory to write.", metavar="DIR")
    base: str | None = option(
        "Model that training started from.", default=None, metavar="MODEL", shown="from the run directory"
    )
    canaries: Path | None = option("Key file of planted canaries.", default=None, metavar="FILE")
    attacks: str = option(
        f"Attacks to run, comma-separated. all: {', '.join(USUAL)}. With --policy also {WITH_POLICY}. "
        f"Only if named: {', '.join(OPT_IN)}.",
        default="all",
        metavar="NAMES",
        listed=True,
        panel=_ATTACKS,
    )
    records: int = option(
        "Attack at most N members and N non-members, sampled at random.",
        default=1000,
        within=Range(2, int(COUNT.high)),
        metavar="N",
        panel=_ATTACKS,
    )
    samples: int = option(
        "Number of samples that the lazy attacker draws.",
        default=1_000_000,
        within=COUNT,
        metavar="N",
        panel=_ATTACKS,
    )
    temperature: tuple[float, ...] = option(
        "Temperature at which the lazy attacker samples; 0 is greedy. Repeatable: a schedule, one value for each "
        "token, and the last one for the rest.",
        default=(),
        shown="1",
        metavar="T",
        panel=_ATTACKS,
    )
    top_k: int | None = option(
        "The lazy attacker samples from the K likeliest tokens.",
        default=None,
        within=COUNT,
        metavar="K",
        panel=_ATTACKS,
    )
    chance: float = option(
        "A text counts as emitted if the lazy attacker's samples contain it with at least this probability.",
        default=0.5,
        metavar="P",
        panel=_ATTACKS,
    )
    by_coin: bool = option(
        "Each record was trained on or held out by its own fair coin: derive a lower bound on ε.",
        default=False,
        panel=_ATTACKS,
    )
    budget: str | None = option(
        "Time limit for the attacks: 90s, 10m, 2h. Up to about a fifth of it goes to trial runs that "
        "estimate how long attacks take.",
        default=None,
        metavar="TIME",
        panel=_ATTACKS,
    )
    shadow_models: int = option(
        "Number of shadow models to train for the attack 'shadow'.",
        default=8,
        within=Range(2, int(COUNT.high)),
        metavar="N",
        panel=_ATTACKS,
    )
    texts: int | None = option(
        "Sample N texts without a prompt, for the attacks 'generation', 'novelty' and 'pii'.",
        default=None,
        shown="256, or --records if that is less",
        within=COUNT,
        metavar="N",
        panel=_ATTACKS,
    )
    candidates: int = option(
        "In the inference game of 'pii', hide the true value among at most N candidates.",
        default=100,
        within=Range(2, 500),
        metavar="N",
        panel=_ATTACKS,
    )
    draws: int = option(
        "Ask each prompt for personal data N times.",
        default=16,
        within=COUNT,
        metavar="N",
        panel=_ATTACKS,
    )
    others: OtherValues = option(
        "Whether an attacker who guesses a masked value knows the other values in its text.",
        default=OtherValues.KNOWN,
        panel=_ATTACKS,
    )
    policy: str | None = option(
        f"Policy that finds personal data for the attack 'pii', which all then includes: {POLICY_HELP}",
        default=None,
        shown=DEFAULT_POLICY,
        metavar="NAME",
        panel=_ATTACKS,
    )
    cache: Path | None = option(
        "Folder that stores scores between runs.", default=None, metavar="DIR", shown="the user's cache folder"
    )
    no_cache: bool = option("Measure everything again, and store nothing.", default=False)
    chat: bool = option(
        "Send prompts as a user's message: to /v1/chat/completions of a server, or through the chat template of a "
        "local model.",
        default=False,
        panel=_ATTACKS,
    )
    tokenizer: Path | None = option(
        "Directory with the tokenizer of a served model, if its server has none.",
        default=None,
        metavar="DIR",
        panel=_SERVED,
    )
    journal: Path | None = option(
        "File that stores the scores of a served model as they arrive, so that an interrupted audit can continue.",
        default=None,
        metavar="FILE",
        panel=_SERVED,
    )
    reveal: bool = option("Write the texts and secrets that were found to revealed.json.", default=False)
    seed: int = option("Random seed of samples.", default=0, within=SEED, metavar="N", last=True)

    def check(self) -> None:
        """Refuse limits, attacks and times that mean nothing, before anything is read."""
        self.limits()
        self.attack_settings()
        _ = self.log_place
        if self.no_cache and self.cache is not None:
            raise ConfigError("--cache and --no-cache contradict each other")

    def attack_settings(self) -> "AttackSettings":
        """What is asked of the attacks."""
        from reticent.auditing.settings import AttackSettings, Sizes, parse_budget
        from reticent.runs.audit.gate import asked_rates

        usual = AttackSettings()
        return AttackSettings(
            attacks=parse_attacks(self.attacks, with_policy=self.policy is not None),
            sizes=Sizes(
                records=self.records,
                extraction_records=min(self.records, usual.sizes.extraction_records),
                texts=min(self.records, usual.sizes.texts) if self.texts is None else self.texts,
                choices=self.candidates,
                draws=self.draws,
            ),
            samples=self.samples,
            sampler=self.sampler(),
            chance=self.chance,
            rates=tuple(dict.fromkeys((*usual.rates, *asked_rates(self.limits())))),
            budget=None if self.budget is None else parse_budget(self.budget),
            seed=self.seed,
            by_coin=self.by_coin,
            shadow_models=self.shadow_models,
            policy=self.policy_with_patterns(self.policy or DEFAULT_POLICY),
            others=self.others,
            chat=self.chat,
            reveal=self.reveal,
            engine=self.engine_settings,
        )

    def sampler(self) -> "Sampling":
        """How the lazy attacker draws."""
        from reticent.core.sampling import Sampling

        schedule = self.temperature or (1.0,)
        try:
            return Sampling(temperature=schedule if len(schedule) > 1 else schedule[0], top_k=self.top_k)
        except ValueError as error:
            raise ConfigError(str(error), found=", ".join(map(str, schedule))) from error

    def recorded(self, base: str | None) -> dict[str, Any]:
        """What the record of the run says of the options; `base` is the base model that was used."""
        used = {"base": base, "attacks": list(self.attack_settings().attacks or ())}
        return self.model_dump(mode="json", exclude=_UNRECORDED) | used

    def check_paths(self) -> None:
        """Files and models are there and the folder is free: said before torch is loaded."""
        from reticent.auditing.subject import is_remote
        from reticent.models.huggingface.location import locate
        from reticent.runs.audit.subject import find_model

        RunDirectory.for_new_run(self.out)
        find_model(self.model)
        for path in (self.train, self.holdout):
            self.corpus(path)
        for name in (self.model, self.base):
            if name is not None and not is_remote(name):
                locate(name)
