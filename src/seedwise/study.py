"""The study file: what is compared.  Frozen, checked, and free of torch.

These models are the one source of the YAML defaults, of config/schema.json and of config/README.md.
reading.py turns a file into a Study or a StudyError.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from seedwise.algos.algorithm import Algorithm
from seedwise.tasks import Task

RESERVED = ("runs", "data", "models")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class StudyError(ValueError):
    """A study that cannot be run; one line per mistake."""


def number(value: object) -> object:
    """``log 4``, ``"0.1"`` and ``1e-4`` are numbers; everything else is returned as it came."""
    if isinstance(value, str):
        text = value.strip()
        if logarithm := re.fullmatch(r"log\s*\(?\s*([0-9.]+)\s*\)?", text):
            return math.log(float(logarithm[1]))
        if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text):
            return float(text)
    return value


def _safe(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a safe name: use letters, digits and _, starting with a letter")
    return name


Number = Annotated[float, BeforeValidator(number)]
Share = Annotated[Number, Field(ge=0, le=1)]
Positive = Annotated[Number, Field(gt=0)]
Name = Annotated[str, BeforeValidator(lambda name: _safe(name) if isinstance(name, str) else name)]
Count = Annotated[int, Field(ge=1)]
Scorer = Literal["shortest", "longest", "most_frequent", "log_probability"]
# EAPO follows arXiv 2603.15500, whose authors list these in eval_suppressing_epistemic_verbalization.py.
EPISTEMIC = (
    "wait", "hmm", "perhaps", "maybe", "alternatively", "seems", "might", "likely", "guess", "sure", "another",
)  # fmt: skip
Diagnostic = Literal["update_mass", "gradient_noise", "entropy_slope", "entropy_change", "entropy_identity"]


class Settings(BaseModel):
    """A section of a study: frozen, and strict about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Lora(Settings):
    """A low-rank adapter trained instead of the whole model (peft)."""

    rank: Count = 8
    alpha: Number = 16.0
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    dropout: Annotated[Number, Field(ge=0, lt=1)] = 0.0


class ModelSpec(Settings):
    """A backbone and how it is spoken to."""

    kind: Literal["embedded", "hub", "folder", "gguf"] = Field(
        description="embedded: the shipped character-level model; hub: a hub id; folder: a local one; gguf: a GGUF file"
    )
    id: str | None = Field(default=None, description="hub id (kind hub)")
    revision: str | None = Field(default=None, description="commit or tag, required for kind hub")
    path: str | None = Field(
        default=None, description="folder (kinds folder and gguf); package:NAME for that of an installed Python package"
    )
    file: str | None = Field(default=None, description="file name inside path (kind gguf)")
    lora: Lora | None = Field(default=None, description="train an adapter instead of the whole model")
    template: str = Field(default="{question}", description="prompt, with fields of the problem in braces")
    chat_template: str | None = Field(
        default=None,
        description="null: the prompt as it is; 'tokenizer': the tokenizer's own chat template; else Jinja text",
    )
    thinking: bool | None = Field(
        default=None,
        description="enable_thinking of the chat template, for models that can do both; null: as the template has it",
    )
    stop: tuple[str, ...] = Field(
        default=(), description="tokens that end a completion beside the model's own end token"
    )

    @model_validator(mode="after")
    def _complete(self) -> ModelSpec:
        wanted = {"embedded": (), "hub": ("id", "revision"), "folder": ("path",), "gguf": ("path", "file")}[self.kind]
        for key in ("id", "revision", "path", "file"):
            if (getattr(self, key) is not None) != (key in wanted):
                raise ValueError(f"kind {self.kind} {'needs' if key in wanted else 'takes no'} {key!r}")
        if self.path is not None and self.path.startswith("package:"):
            name = self.path.removeprefix("package:")
            if not name.isidentifier():
                raise ValueError(f"path {self.path!r}: name a Python package, as in package:numpy")
        if self.thinking is not None and self.chat_template is None:
            raise ValueError("thinking is told by a chat template: give chat_template, or leave thinking out")
        return self


class Train(Settings):
    """One training, the same for every method unless an axis names the setting."""

    steps: Count = Field(default=60, description="optimizer steps")
    completions: Count = Field(default=64, description="completions of a rollout: prompts x group size")
    updates_per_rollout: Count = Field(default=1, description="optimizer steps on one rollout")
    iterations: Count = Field(default=1, description="passes over one rollout")
    lr: Annotated[Number, Field(gt=0)] = 1e-4
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[Number, Field(ge=0)] = Field(default=1.0, description="0: no clipping of gradients")
    micro_batch: Count = Field(default=64, description="rows of one forward and backward pass")
    max_tokens: Count = Field(default=64, description="longest completion")
    temperature: Annotated[Number, Field(gt=0)] = 1.0
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = Field(default=0, description="0: off")
    checkpoints: tuple[Count, ...] = Field(default=(20, 40, 60), description="steps at which weights are published")
    save_every: Count = Field(default=20, description="steps between states a killed training continues from")
    keep: Literal["last", "all", "none"] = Field(
        default="all",
        description="weights under checkpoints/ that stay once everything in the study that needs them is done; "
        "retention.json beside them says what was removed",
    )
    max_skipped: Annotated[int, Field(ge=0)] = Field(
        default=5,
        description="steps in a row that are skipped because their loss or gradient is not finite; "
        "one more ends the run as diverged, with the weights at its stop",
    )
    keep_state: bool = Field(
        default=True,
        description="keep weights, optimizer and memory of the last step, from which a run with more steps goes on",
    )
    skip_zero_advantage: Literal["where_exact"] | bool = Field(
        default="where_exact",
        description="skip forward and backward of rows whose advantage is exactly 0; "
        "true refuses methods where that would change the result",
    )
    bf16: bool = False
    diagnostics: tuple[Diagnostic, ...] = Field(
        default=("update_mass", "gradient_noise", "entropy_slope"),
        description="update_mass: sum of |advantage| by a group's successes; gradient_noise: of all responses against "
        "active ones; entropy_slope: the predicted direction of the entropy; these cost nothing. entropy_change: "
        "predicted against actual change of the entropy, and entropy_identity: the same on whole distributions of 64 "
        "tokens; each takes two more passes over the rollout",
    )
    words: tuple[str, ...] = Field(
        default=("wait", "let", "so", "hmm", "perhaps", "maybe", "alternatively"),
        description="exploratory words counted per 1,000 tokens",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Train:
        reuse = self.updates_per_rollout * self.iterations
        if self.completions % self.updates_per_rollout:
            raise ValueError(
                f"completions {self.completions} is not a multiple of updates_per_rollout {self.updates_per_rollout}"
            )
        rows = self.completions // self.updates_per_rollout
        if rows > self.micro_batch and rows % self.micro_batch:
            raise ValueError(f"{rows} rows per optimizer step are not a multiple of micro_batch {self.micro_batch}")
        if not self.checkpoints or list(self.checkpoints) != sorted(set(self.checkpoints)):
            raise ValueError(f"checkpoints {list(self.checkpoints)} must be steps in rising order, without repeats")
        if self.checkpoints[-1] != self.steps:
            raise ValueError(
                f"the last of checkpoints {list(self.checkpoints)} must be steps {self.steps}: it is what is compared"
            )
        for key, steps in {"checkpoints": self.checkpoints, "save_every": (self.save_every,)}.items():
            if odd := [step for step in steps if step % reuse]:
                raise ValueError(
                    f"{key} {odd} fall inside a rollout: use multiples of updates_per_rollout x iterations = {reuse}"
                )
        return self


class Forcing(Settings):
    """Budget forcing (s1, arXiv 2501.19393; EAPO, arXiv 2609.33781, figure 6): responses are made to go on.

    Its samples stand under labels of their own, such as ``aime26+wait2``.  They describe: no comparison, no macro
    average and no example of the report is made from them.
    """

    benchmarks: tuple[str, ...] = Field(min_length=1, description="on which responses are made to go on")
    continuations: Count = Field(default=4, description="times; each number from 0 on is scored")
    budget: Count | None = Field(
        default=None, description="tokens of a response, the forced ones included; null: evaluate.max_tokens"
    )
    word: str = Field(default="Wait", min_length=1, description="what stands in place of the end")
    end_of_thinking: str | None = Field(
        default=None,
        description="one token, e.g. </think>, from which on a response is taken off before it goes on; "
        "null: its end token alone",
    )
    samples: Count | None = Field(default=None, description="per problem; null: as the benchmark")
    checkpoints: Literal["last", "all"] = "last"

    def label(self, benchmark: str, continuations: int) -> str:
        """What stands for the benchmark where responses were made to go on so many times: ``aime26+wait2``."""
        word = re.sub(r"[^A-Za-z0-9]", "", self.word).lower() or "forced"
        return f"{benchmark}+{word}{continuations}"


class Evaluate(Settings):
    """Sampling of every checkpoint on every benchmark, and grading."""

    benchmarks: dict[Name, Task] = Field(min_length=1, description="name -> problems")
    samples: Count | dict[str, Count] = Field(
        default=16, description="per problem, or benchmark -> number; more draw the new ones"
    )
    temperature: Annotated[Number, Field(ge=0)] = 0.7
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    max_tokens: Count = 96
    checkpoints: Literal["all"] | tuple[Count, ...] = Field(
        default="all", description="steps of train.checkpoints that are evaluated; the last one always is"
    )
    forcing: Forcing | None = Field(default=None, description="null: no response is made to go on")

    @model_validator(mode="after")
    def _samples_for_all(self) -> Evaluate:
        for name in self.forcing.benchmarks if self.forcing else ():
            if name not in self.benchmarks:
                raise ValueError(f"forcing.benchmarks {name!r} is none of {', '.join(self.benchmarks)}")
        if isinstance(self.samples, dict) and set(self.samples) != set(self.benchmarks):
            raise ValueError(
                f"samples names {sorted(self.samples)}, benchmarks are {sorted(self.benchmarks)}: name each once"
            )
        return self

    def samples_of(self, benchmark: str) -> int:
        """Samples of every problem of a benchmark."""
        return self.samples[benchmark] if isinstance(self.samples, dict) else self.samples


class Grading(Settings):
    """Limits of one verification."""

    time_limit_s: Annotated[Number, Field(gt=0)] = 2.0
    memory_mb: Count = 2048


class Resample(Settings):
    """The continuation experiment (EAPO, arXiv 2609.33781, tables 1 and 7, figure 2, appendix E)."""

    benchmark: str | None = Field(default=None, description="null: the first benchmark")
    band: tuple[Share, Share] = Field(default=(0.2, 0.8), description="accuracy of the problems taken")
    problems: Count = 6
    responses: Count = Field(default=2, description="correct ones of a problem, and as many incorrect ones")
    window: Count = Field(default=4, description="tokens")
    continuations: Count = 8
    edge: Annotated[Number, Field(ge=0, lt=0.5)] = Field(
        default=0.2, description="share of the response excluded at each end"
    )
    apart: Share = Field(default=0.2, description="start positions lie within this share of the length")
    positions: tuple[Annotated[Number, Field(ge=0, lt=1)], ...] = Field(
        default=(),
        description="shares of its length at which a response is cut and continued as well, e.g. [0, 0.25, 0.5, 0.75]",
    )
    per_position: Count = Field(default=4, description="continuations from each of the positions")
    words: Annotated[int, Field(ge=0)] = Field(
        default=64, description="responses at most whose words are read, with the entropies of their tokens"
    )
    methods: tuple[str, ...] | None = Field(default=None, description="method points; null: all, and the base")

    @field_validator("positions")
    @classmethod
    def _rising(cls, positions: tuple[float, ...]) -> tuple[float, ...]:
        if list(positions) != sorted(set(positions)):
            raise ValueError(f"{list(positions)} must rise, without repeats")
        return positions

    @field_validator("band")
    @classmethod
    def _band(cls, band: tuple[float, float]) -> tuple[float, float]:
        if not band[0] < band[1]:
            raise ValueError(f"band {list(band)} is empty: the first value must be below the second")
        return band


class Metrics(Settings):
    """What every checkpoint is measured by on every benchmark beside the comparison; docs/metrics.md defines each."""

    pass_k: tuple[Count, ...] = Field(
        default=(1, 2, 4, 8, 16, 32, 64, 128, 256),
        description="k of pass@k; those above the number of samples are left out",
    )
    majority_k: tuple[Count, ...] = Field(default=(2, 4, 8, 16, 32, 64), description="k of majority@k, likewise")
    best_k: tuple[Count, ...] = Field(default=(2, 4, 8, 16, 32, 64), description="k of best-of-k, likewise")
    best_of: tuple[Scorer, ...] = Field(
        default=("shortest", "most_frequent"),
        description="how the best of k is chosen; log_probability where the samples keep it",
    )
    budgets: tuple[Count, ...] | None = Field(
        default=None,
        description="tokens within which a correct response counts; null: a quarter, a half and all of "
        "evaluate.max_tokens",
    )
    bands: tuple[Share, ...] = Field(
        default=(0.0, 0.25, 0.5, 0.75, 1.0),
        min_length=2,
        description="edges of bands of the untrained model's accuracy on a problem, from 0 to 1; a band holds its "
        "lower edge",
    )
    hard_below: Annotated[Number, Field(gt=0, le=1)] = Field(
        default=0.25,
        description="answer entropy and collision rate are those of problems that the untrained model solves in less "
        "than this share of its samples",
    )
    same_answer: Literal["text", "math_verify"] = Field(
        default="text", description="wrong answers are one where their texts are, or where math-verify holds them equal"
    )
    markers: tuple[str, ...] = Field(
        default=EPISTEMIC, description="epistemic markers counted per 1,000 tokens, whole words in any case"
    )

    @field_validator("pass_k", "majority_k", "best_k", "budgets", "bands")
    @classmethod
    def _in_order(cls, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is not None and list(values) != sorted(set(values)):
            raise ValueError(f"{list(values)} must rise, without repeats")
        return values

    @field_validator("bands")
    @classmethod
    def _whole_range(cls, bands: tuple[float, ...]) -> tuple[float, ...]:
        if bands[0] != 0 or bands[-1] != 1:
            raise ValueError(f"{list(bands)} must begin with 0 and end with 1: every problem lies in one band")
        return bands

    @field_validator("best_of", "markers")
    @classmethod
    def _named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        low = [name.lower() for name in names]
        for position, name in enumerate(low):
            if name in low[:position]:
                raise ValueError(f"names {name!r} twice")
            if not name.strip() or name == "markers":
                raise ValueError(f"{name!r} is no word to count: an empty one, or the name of the sum of all")
        return names

    def within(self, max_tokens: int) -> tuple[int, ...]:
        """The budgets in use where responses have at most so many tokens."""
        shares = dict.fromkeys(max(1, max_tokens * part // 4) for part in (1, 2, 4))
        return tuple(shares) if self.budgets is None else self.budgets


class Stability(Settings):
    """When a run's entropy collapses or explodes: its last rollouts against its first (`seedwise.stats.stability`)."""

    edge: Annotated[Number, Field(gt=0, le=0.5)] = Field(
        default=0.1, description="share of the steps that make the beginning, and of those that make the end"
    )
    min_steps: Count = Field(default=20, description="steps with a measured entropy that a label needs; below: null")
    usual_nats: tuple[Positive, Positive] = Field(
        default=(0.1, 1.0), description="a beginning outside this range counts as the end of the range"
    )
    collapse_share: Annotated[Number, Field(gt=0, lt=1)] = Field(
        default=0.2, description="collapsing: the end is below this share of the beginning"
    )
    collapse_nats: Positive = Field(default=0.02, description="collapsing: the end is below it")
    explode_ratio: Annotated[Number, Field(gt=1)] = Field(
        default=3.0, description="exploding: the end is above so many times the beginning"
    )
    explode_nats: Positive = Field(default=2.0, description="exploding: the end is above it and the beginning was not")
    low_share: Annotated[Number, Field(gt=0, lt=1)] = Field(
        default=0.5,
        description="`seedwise suggest-k`: entropy is low where its end is below this share of the beginning",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Stability:
        low, high = self.usual_nats
        if not self.collapse_nats < low <= high < self.explode_nats:
            raise ValueError(
                f"collapse_nats {self.collapse_nats:g}, usual_nats [{low:g}, {high:g}] and explode_nats "
                f"{self.explode_nats:g} must rise in this order"
            )
        return self


class Primary(Settings):
    """The comparison that was meant before anything ran."""

    metric: Literal["avg@n"] = "avg@n"
    family: tuple[str, ...] = Field(min_length=1, description="method points compared with the reference; about four")


SUMMARIES = ("final", "area", "log_volatility", "late_slope")
Cost = Literal["generated_tokens", "trained_tokens", "flops", "device_seconds"]


class Secondary(Settings):
    """One more declared family, with a Holm of its own and no part in the headline claim."""

    metric: str = Field(pattern=r"^(avg@n|pass@[1-9][0-9]*)$", description="avg@n or pass@ with a number")
    family: tuple[str, ...] = Field(min_length=1, description="method points compared with the reference")


class Collapse(Settings):
    """When a run counts as collapsed: below a floor, or that far below its highest value so far, and for how long."""

    floor: Number | None = Field(default=None, description="in the unit of the metric")
    drop: Annotated[Number, Field(gt=0)] | None = Field(default=None, description="in the unit of the metric")
    evaluations: Count = Field(default=3, description="values in a row")

    @model_validator(mode="after")
    def _one_bound(self) -> Collapse:
        if (self.floor is None) == (self.drop is None):
            raise ValueError("give one of floor and drop")
        return self


class Line(Settings):
    """Method points along an ordered axis."""

    axis: str = Field(description="K, kappa, group_size or a setting: where a point stands, by its runs' own value")
    points: tuple[str, ...] = Field(min_length=2, description="method points, each with another value of the axis")


class Outcome(Settings):
    """One number per run from what its training recorded; a family with a Holm of its own, on new seeds alone."""

    measure: str = Field(min_length=1, description="name in results/runs/<run>/metrics.parquet, e.g. entropy_nats")
    over: tuple[Share, Share] = Field(
        default=(0.9, 1.0), description="shares of the run's steps: after the first, up to the second"
    )
    summary: Literal["mean", "min", "max"] = Field(default="mean", description="of the defined values in these steps")
    trends: dict[Name, Line] = Field(
        default_factory=dict, description="name -> line; its linear and its quadratic contrast are in the family"
    )
    pairs: tuple[tuple[str, str], ...] = Field(
        default=(), description="[a, b]: method points whose difference, a minus b, is in the family"
    )
    show: tuple[str, ...] = Field(default=(), description="further method points whose mean is shown, untested")
    direction: Literal["rises", "falls"] | None = Field(
        default=None,
        description="sign that the claim gives to each difference and linear contrast, declared before it runs; "
        "null: none",
    )
    smallest_effect: Positive | None = Field(
        default=None, description="in the unit of the measure: pairs are tested for equivalence within it too"
    )
    paired: bool = Field(
        default=False,
        description="runs of one seed are compared with each other: they share the order of prompts and the streams "
        "of sampling; pays where that correlates the outcomes",
    )
    claim: str = Field(default="", description="the claim that it answers, shown beside its table")

    @field_validator("over")
    @classmethod
    def _some_steps(cls, over: tuple[float, float]) -> tuple[float, float]:
        if not over[0] < over[1]:
            raise ValueError(f"over {list(over)} is empty: the first value must be below the second")
        return over

    @model_validator(mode="after")
    def _asks_something(self) -> Outcome:
        if not self.methods:
            raise ValueError("give one of trends, pairs and show: nothing is asked")
        for position, (a, b) in enumerate(self.pairs):
            if a == b or {a, b} in [set(pair) for pair in self.pairs[:position]]:
                raise ValueError(f"pairs: [{a}, {b}] compares a method point with itself, or stands there twice")
        for name, line in self.trends.items():
            if len(set(line.points)) < len(line.points):
                raise ValueError(f"trends.{name}.points {list(line.points)} names a method point twice")
        return self

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method point in it, in the order of mention."""
        along = [point for line in self.trends.values() for point in line.points]
        return tuple(dict.fromkeys([*along, *(point for pair in self.pairs for point in pair), *self.show]))


class Compare(Settings):
    """Declared before the study runs; hashed into every table's footer."""

    reference: str = Field(description="method point")
    primary: Primary
    secondary: dict[Name, Secondary] = Field(
        default_factory=dict,
        description="name -> further family; none: the primary family on the largest pass@k with n >= 2k",
    )
    trends: tuple[str, ...] = Field(default=(), description="ordered axes: K, kappa, group_size")
    interactions: tuple[tuple[str, str], ...] = Field(
        default=(),
        description="pairs of ordered axes: does one change the effect of the other? e.g. [[K, group_size]]",
    )
    across: tuple[str, ...] = Field(
        default=(),
        description="axes compared across, e.g. train.lr, model.lora, group_size: their values become part of the "
        "method point (clip_higher.lr2e-05); all other axes form the setting that comparisons stay within",
    )
    smallest_effect: Annotated[Number, Field(gt=0, lt=1)] = Field(default=0.02, description="score units")
    alpha: Annotated[Number, Field(gt=0, lt=0.5)] = 0.05
    looks: tuple[Annotated[int, Field(ge=2)], ...] | None = Field(
        default=None,
        description="seeds per method at each planned look, e.g. [3, 5, 7, 10]; null: one look at all seeds",
    )
    spending: Literal["obf", "pocock"] = Field(
        default="obf", description="how alpha is spent over the looks (Lan-DeMets): late, or evenly"
    )
    checkpoint: Literal["last", "mean_of_last_3"] = Field(
        default="last", description="what is scored: the last checkpoint, or the mean of the last three"
    )
    bands: tuple[Annotated[Share, Field(lt=1)], ...] = Field(
        default=(0.0, 0.5),
        description="upper edges of bands of the untrained model's accuracy on a problem: [0, 0.5] means never solved, "
        "up to a half, above; []: no bands",
    )
    curves: tuple[str, ...] = Field(
        default=("reward.area", "entropy_nats.final", "entropy_nats.log_volatility", "length_tokens.final"),
        description=f"one number of each training curve, as metric.summary; summaries: {', '.join(SUMMARIES)}",
    )
    crossover: dict[str, Number] = Field(
        default_factory=dict,
        description="metric -> level: the step from which a run stays above it, compared by ranks",
    )
    collapse: dict[str, Collapse] = Field(
        default_factory=dict,
        description="metric -> bound: share of runs that collapse, by Fisher's exact test",
    )
    outcomes: dict[Name, Outcome] = Field(
        default_factory=dict,
        description="name -> one number per run and what is asked of it: trends and pairs, Holm within each outcome",
    )
    budget: dict[Cost, Annotated[Number, Field(gt=0)] | None] = Field(
        default_factory=lambda: {"generated_tokens": None, "trained_tokens": None},
        description="cost -> amount per run at which scores are compared; null: the largest that every run reached; "
        "device_seconds are measured, so they differ between reruns",
    )

    @field_validator("looks", "bands")
    @classmethod
    def _rising(cls, values: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if values is not None and list(values) != sorted(set(values)):
            raise ValueError(f"{list(values)} must rise, without repeats")
        return values

    @field_validator("looks")
    @classmethod
    def _some(cls, looks: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if looks == ():
            raise ValueError("[] plans no look: write null for one look at all seeds")
        return looks

    @field_validator("curves")
    @classmethod
    def _summarised(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name.rpartition(".")[2] not in SUMMARIES or not name.rpartition(".")[0]:
                raise ValueError(f"{name!r} is not metric.summary: end it with one of {', '.join(SUMMARIES)}")
        return names

    @model_validator(mode="after")
    def _claimed_once(self) -> Compare:
        claims = [("primary", self.primary.metric, self.primary.family)]
        claims += [(f"secondary.{name}", each.metric, each.family) for name, each in self.secondary.items()]
        for position, (name, metric, family) in enumerate(claims):
            for other, same, members in claims[:position]:
                if metric == same and (both := [method for method in family if method in members]):
                    raise ValueError(f"{name}.family: {both[0]!r} is in {other} with {metric} already: name it once")
        return self

    @property
    def metric(self) -> str:
        """The primary metric."""
        return self.primary.metric

    @property
    def family(self) -> tuple[str, ...]:
        """Method points of the primary family."""
        return self.primary.family


class Block(Settings):
    """Cells of the grid, or beside it: some method points, on some models, under some values of the axes."""

    methods: tuple[str, ...] = Field(
        min_length=1, description="method points; the name of a method stands for all of its points"
    )
    group_size: int | tuple[int, ...] | None = Field(default=None, description="null: as the study")
    models: tuple[str, ...] | None = Field(default=None, description="null: all")
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] | None = Field(
        default=None, description="null: as the study"
    )
    axes: dict[str, list[Any]] = Field(default_factory=dict, description="as above; beside the study's own")


class Study(Settings):
    """A study file.

    ``methods`` holds a preset with its parameters or an expression of parts; lists are grids.  ``init_from`` beside
    them names what a method starts from in place of the untrained model: another method point, whose run of the same
    model, setting and seed it is (rounds of self-improvement), or any run by name.
    """

    study: Name
    models: dict[Name, ModelSpec] = Field(min_length=1)
    train_data: Task
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(min_length=1)
    methods: dict[Name, dict[str, Any]] = Field(min_length=1)
    group_size: int | tuple[int, ...] = 8
    axes: dict[str, list[Any]] = Field(default_factory=dict, description="dotted setting -> values, e.g. train.lr")
    grid: Block | None = Field(
        default=None,
        description="what the full grid is made of, where not every method point is trained on every model; the others "
        "stand in blocks",
    )
    blocks: tuple[Block, ...] = Field(default=(), description="cells beside the full grid")
    train: Train = Train()
    evaluate: Evaluate
    grading: Grading = Grading()
    resample: Resample = Resample()
    metrics: Metrics = Metrics()
    stability: Stability = Stability()
    compare: Compare

    @field_validator("study")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        if name in RESERVED:
            raise ValueError(f"{name!r} is reserved: {', '.join(RESERVED)} are folders of results/; take another name")
        return name

    @field_validator("seeds", mode="before")
    @classmethod
    def _whole_seeds(cls, seeds: object) -> object:
        for position, seed in enumerate(seeds if isinstance(seeds, (list, tuple)) else ()):
            if type(seed) is not int:
                raise ValueError(f"seed {position} is {seed!r}: give a whole number")
        if isinstance(seeds, (list, tuple)) and len(set(seeds)) != len(seeds):
            raise ValueError(f"{list(seeds)} names a seed twice")
        return seeds

    @model_validator(mode="after")
    def _checkpoints_known(self) -> Study:
        chosen = self.evaluate.checkpoints
        for step in () if chosen == "all" or "train.checkpoints" in self.axes else chosen:
            if step not in self.train.checkpoints:
                raise ValueError(f"evaluate.checkpoints: {step} is none of train.checkpoints {self.train.checkpoints}")
        if chosen != "all" and self.compare.checkpoint != "last":
            raise ValueError(
                f"evaluate.checkpoints: compare.checkpoint {self.compare.checkpoint} needs more than one: write all"
            )
        return self

    @model_validator(mode="after")
    def _benchmarks_known(self) -> Study:
        name = self.resample.benchmark
        if name is not None and name not in self.evaluate.benchmarks:
            raise ValueError(f"resample.benchmark {name!r} is none of {', '.join(self.evaluate.benchmarks)}")
        return self


class Run(Settings):
    """One training: everything it depends on, resolved."""

    name: str
    method: str = Field(description="method point as the study calls it, e.g. qae.K0.4")
    model_name: str
    model: ModelSpec
    algorithm: Algorithm
    group_size: int
    seed: int
    setting: str = Field(description="the axes other than method, model and seed, e.g. G8")
    axes: dict[str, Any] = Field(description="every axis value: K, kappa, group_size, train.lr, ...")
    train: Train
    grading: Grading
    data: str = Field(description="name of the training problems, with id")
    base: str = Field(description="name of the model folder, with id")
    rewards: dict[str, str] = Field(
        default_factory=dict, description="verifier of the training problems -> its declared version"
    )
    init_from: str | None = Field(default=None, description="the run whose last checkpoint it starts from")
    lineage: str | None = Field(
        default=None, description="what it shares with runs that differ in the number of steps alone; null: none can"
    )

    @property
    def id(self) -> str:
        """The 8 hex digits that end the name."""
        return self.name.rpartition("-")[2]
