"""Algorithms as expressions: what is refused and with which words, presets by name, axes by path."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from algos.made import ALL_PRESETS, REQUIRED, advantages, groups

from seedwise.algos.algorithm import Algorithm, AlgorithmError, with_value
from seedwise.algos.baseline import DivideByGroupMean, DivideByGroupStd, FixedBaseline, GroupMean, LeaveOneOut, Quantile
from seedwise.algos.channels import SeparateChannels
from seedwise.algos.credit import Entropic
from seedwise.algos.objective import Gspo, Objective
from seedwise.algos.overlong import SoftOverlong
from seedwise.algos.presets import AXES, PRESETS, parameters, preset
from seedwise.algos.sampler import DynamicSampling, UniformSampler
from seedwise.algos.scaling import BatchStd
from seedwise.algos.settings import settings


def test_reading_algorithms_never_imports_torch():
    code = (
        "import sys; from seedwise.algos import presets; presets.preset('qae_eapo'); "
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


@pytest.mark.parametrize(
    ("baseline", "says"),
    [
        ((), "at least 1 item"),
        ((DivideByGroupStd(),), "never subtracts anything: put group_mean first"),
        ((LeaveOneOut(), Quantile()), "centres more than once.*keep one"),
        ((GroupMean(), FixedBaseline(b=0.5), DivideByGroupStd()), "centres more than once"),
        ((DivideByGroupStd(), GroupMean()), "divides before it subtracts: put group_mean first"),
        ((GroupMean(), DivideByGroupStd(), DivideByGroupMean()), "divides more than once: keep one"),
        (
            (SeparateChannels(), BatchStd()),
            "batch_std after separate_channels would divide the penalty too: set its scale to {kind: batch_std}",
        ),
    ],
)
def test_senseless_chains_are_refused(baseline, says):
    with pytest.raises(ValueError, match=says):
        Algorithm(baseline=baseline)


def test_token_credit_is_refused_where_the_ratio_belongs_to_the_response():
    parts = {"baseline": (GroupMean(),), "credit": Entropic()}
    with pytest.raises(ValueError, match=r"set objective\.surrogate\.level to token, or credit to uniform"):
        Algorithm(**parts, objective=Objective(surrogate=Gspo()))
    assert Algorithm(**parts, objective=Objective(surrogate=Gspo(level="token"))).needs == {
        "entropy",
        "entropy_quantiles",
    }


def test_an_expression_is_read_as_it_stands_in_a_study():
    written = {
        "baseline": [{"kind": "quantile", "K": 0.4}, {"kind": "divide_by_group_std"}],
        "credit": {"kind": "entropic"},
    }
    assert Algorithm.model_validate(written) == preset("qae_eapo")


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"baseline": [{"kind": "mode"}]}, "mode"),
        ({"baseline": [{"kind": "quantile", "k": 0.4}]}, "k"),
        ({"baseline": [{"kind": "group_mean"}], "sampler": {"kind": "dynamical"}}, "sampler"),
    ],
)
def test_unknown_kinds_and_keys_are_refused(written, says):
    with pytest.raises(ValueError, match=says):
        Algorithm.model_validate(written)


def test_parts_are_values():
    assert preset("qae", K=0.4) == preset("qae")
    assert len({preset("qae", K=K) for K in (0.2, 0.4, 0.4)}) == 2
    with pytest.raises(ValueError, match="frozen"):
        preset("qae").baseline[0].K = 0.5


def test_states_are_laid_out_for_every_part():
    state = preset("qae_eapo", penalty={"max_length": 10, "cache": 2}).start(problems=3)
    assert state["baseline"] == [{}, {}]
    assert state["sampler"] == UniformSampler().start(3)
    assert set(state) == {"baseline", "credit", "objective", "sampler"}


def test_a_chain_passes_each_part_its_own_state():
    algorithm = preset("grpo")
    with pytest.raises(ValueError, match="zip"):
        algorithm.advantages(groups([[1.0, 0.0]]), {"baseline": [{}]}, torch.Generator())


def test_a_part_that_is_not_row_local_is_named(monkeypatch):
    monkeypatch.setattr(Quantile, "row_local", False)
    reason = preset("qae").may_skip()
    assert reason == "quantile acts on rows with zero advantage too: set train.skip_zero_advantage to false"
    assert preset("grpo").may_skip() is None


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("qea", {}, "unknown preset 'qea': did you mean 'qae'?; presets are grpo, dr_grpo,"),
        ("zzz", {}, "unknown preset 'zzz'; presets are grpo,"),
        ("qae", {"k": 0.4}, "preset qae has no parameter 'k': did you mean 'K'?; it has K, interpolation, low,"),
        ("grpo", {"K": 0.4}, "preset grpo has no parameter 'K'"),
        ("dapo", {"length": "long"}, "preset dapo: SoftOverlong.max_length: Input should be a valid integer"),
        ("dapo", {"length": 64, "cache": 65}, "cache 65 is longer than max_length 64"),
        ("dapo", {"length": 64, "surplus": "sell"}, "preset dapo: DynamicSampling.surplus: Input should be 'discard'"),
        ("eapo", {"kappa": 1, "credit": {"kind": "uniform"}}, "preset eapo: kappa has no effect beside credit: set it"),
        ("qae", {"K": 0.6, "baseline": [{"kind": "median"}]}, "preset qae: K has no effect beside baseline: set it"),
        ("gspo", {"low": 0.1, "objective": {"surrogate": {"kind": "cispo"}}}, "low has no effect beside objective"),
        ("gspo", {"credit": {"kind": "entropic"}}, "preset gspo: Algorithm: credit entropic has no effect under gspo"),
        ("qae", {"sampler": {"kind": "dynamo"}}, "preset qae: Algorithm.sampler: Input tag 'dynamo' found"),
        ("qae", {"objective": 3}, "preset qae: Algorithm.objective: Input should be a valid dictionary"),
        ("dr_grpo", {}, "preset dr_grpo needs length: set it beside preset"),
        ("qae", {"K": 1.5}, "preset qae: Quantile.K: Input should be less than 1, got 1.5"),
        ("eapo", {"kappa": "four"}, "preset eapo: Entropic.kappa: Input should be a valid number"),
        ("grpo", {"penalty": {"max_length": 8, "cache": 9}}, "cache 9 is longer than max_length 8"),
    ],
)
def test_preset_errors_are_one_line(name, params, says):
    with pytest.raises(AlgorithmError) as error:
        preset(name, **params)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_those_that_a_preset_takes(name):
    required = REQUIRED.get(name, {})
    known = parameters(name)
    given = {key: required[key] if value.default is value.empty else value.default for key, value in known.items()}
    assert preset(name, **given) == ALL_PRESETS[name]
    assert not set(known) & set(AXES)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_takes_whole_axes(name):
    penalty, sampler = SoftOverlong(max_length=10, cache=4), DynamicSampling(surplus="keep")
    got = preset(name, penalty=penalty.model_dump(), sampler=sampler, **REQUIRED.get(name, {}))
    assert (got.penalty, got.sampler) == (penalty, sampler)
    assert preset(name, penalty=None, **REQUIRED.get(name, {})).penalty is None
    assert (
        got.model_copy(update={axis: getattr(ALL_PRESETS[name], axis) for axis in ("penalty", "sampler")})
        == (ALL_PRESETS[name])
    )


def test_what_is_given_of_an_objective_replaces_that_of_the_preset():
    # the surrogate stays GSPO's and the average GSPO's, where a whole objective would be clipped per token
    got = preset("gspo", low=1e-4, objective={"kl": 0.01})
    assert got.objective == preset("gspo", low=1e-4).objective.model_copy(update={"kl": 0.01})
    assert preset("gspo", objective=Objective()).objective == Objective()


def test_dapo_is_the_whole_recipe():
    # 20,480 tokens with a cache of 4,096, a fifth
    got = preset("dapo", length=20480)
    assert got.penalty == SoftOverlong(max_length=20480, cache=4096)
    assert got.sampler == DynamicSampling(surplus="discard")
    assert got.model_copy(update={"penalty": None, "sampler": UniformSampler()}) == preset("clip_higher")
    short = preset("dapo", length=4, surplus="keep")
    assert short.penalty == SoftOverlong(max_length=4, cache=1), "a cache has a token at least"
    assert short.sampler == DynamicSampling(surplus="keep")


def test_only_overlong_filtering_masks_truncated_responses():
    assert preset("grpo", penalty={"kind": "overlong_filter"}).masks_truncated
    assert not preset("grpo").masks_truncated
    assert not preset("dapo", length=64).masks_truncated


def test_presets_differ_only_where_they_should():
    clip_higher = preset("clip_higher").model_dump()
    for name in ("qae", "eapo", "qae_eapo", "pos_mask", "neg_mask", "random_sparsity"):
        assert preset(name).model_dump()["objective"] == clip_higher["objective"], name
    assert preset("eapo").model_dump() | {"credit": {"kind": "uniform"}} == clip_higher
    surrogate = preset("clip_higher").objective.surrogate
    assert (surrogate.low, surrogate.high) == (0.2, 0.28)


@pytest.mark.parametrize(
    ("name", "path", "value", "full"),
    [
        ("clip_higher", "objective.high", 0.24, "objective.surrogate.high"),
        ("clip_higher", "objective.surrogate.high", 0.24, "objective.surrogate.high"),
        ("clip_higher", "objective.dual", 3.0, "objective.surrogate.dual"),
        ("clip_higher", "objective.kl", 0.01, "objective.kl"),
        ("qae", "baseline.K", 0.6, "baseline.0.K"),
        ("qae", "baseline.1.ddof", 0, "baseline.1.ddof"),
        ("eapo", "credit.kappa", 0.5, "credit.kappa"),
        ("dr_grpo", "objective.length", 99, "objective.average.length"),
    ],
)
def test_an_axis_changes_one_setting(name, path, value, full):
    before = ALL_PRESETS[name]
    after = with_value(before, path, value)
    assert full in settings(before)
    assert with_value(after, full, _read(before, full)) == before
    assert _read(after, full) == value
    assert after != before


def _read(algorithm, path):
    place = algorithm
    for step in path.split("."):
        place = place[int(step)] if step.isdigit() else getattr(place, step)
    return place


@pytest.mark.parametrize(
    ("name", "path", "value", "says"),
    [
        (
            "qae",
            "objective.hihg",
            1,
            "no setting objective.hihg: did you mean 'objective.surrogate.high'?; there are objective.surrogate.low,",
        ),
        ("qae", "baseline.kind", "x", "no setting baseline.kind"),
        ("qae", "credit.kappa", 1, "no setting credit.kappa; there are baseline.0.K,"),
        ("qae", "penalty.cache", 1, "no setting penalty.cache"),
        ("qae", "K", 0.5, "no setting K: did you mean 'baseline.0.K'?; there are"),
        ("qae", "baseline.K", 2, "baseline.K: Algorithm.baseline.0.quantile.K: Input should be less than 1, got 2"),
        ("gspo", "objective.average.low", 2, "no setting objective.average.low"),
    ],
)
def test_axis_errors_are_one_line(name, path, value, says):
    with pytest.raises(AlgorithmError) as error:
        with_value(ALL_PRESETS[name], path, value)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_an_axis_over_the_penalty():
    algorithm = preset("grpo", penalty={"max_length": 10, "cache": 4})
    assert with_value(algorithm, "penalty.cache", 2).penalty == SoftOverlong(max_length=10, cache=2)


def test_an_ambiguous_setting_is_not_guessed():
    # no algorithm that passes the checks has two settings of one name within an axis, so the checks are passed by
    chain = Algorithm.model_construct(baseline=(GroupMean(), DivideByGroupStd(), DivideByGroupStd()))
    with pytest.raises(AlgorithmError, match=r"could be baseline\.1\.eps or baseline\.2\.eps: write the one you mean"):
        with_value(chain, "baseline.eps", 1e-4)


def test_advantages_do_not_write_into_the_rewards():
    view = groups([[1.0, 0, 0, 0, 0]])
    before_PG = view.rewards_PG.clone()
    for algorithm in ALL_PRESETS.values():
        advantages(algorithm, view)
    assert torch.equal(view.rewards_PG, before_PG)
