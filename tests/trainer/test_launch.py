"""Files for accelerate: that it reads them, that they set what they say, and which launches are refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

from seedwise.trainer.run import TrainError, check_launch

FOLDER = Path(__file__).parents[2] / "config" / "accelerate"


def asked(name: str, *more: str) -> argparse.Namespace:
    """What ``accelerate launch`` makes of a file."""
    words = ["--config_file", str(FOLDER / f"{name}.yaml"), *more, "-m", "seedwise.cli", "train", "run"]
    return _validate_launch_command(launch_command_parser().parse_args(words))[0]


def with_deepspeed(*more: str) -> dict[str, str]:
    """The environment that ``accelerate launch`` gives a process under deepspeed_zero2.yaml."""
    args = asked("deepspeed_zero2", *more)
    args.deepspeed_fields_from_accelerate_config = ""  # launch_command adds it, after starting nothing else
    return prepare_deepspeed_cmd_env(args)[1]


@pytest.mark.parametrize(("name", "kind"), [("ddp", "MULTI_GPU"), ("deepspeed_zero2", "DEEPSPEED")])
def test_accelerate_reads_the_files(name, kind):
    read = load_config_from_file(str(FOLDER / f"{name}.yaml"))
    assert (read.distributed_type, read.num_processes, read.num_machines) == (kind, 8, 1)
    assert {path.stem for path in FOLDER.glob("*.yaml")} == {"ddp", "deepspeed_zero2"}


def test_every_gpu_has_all_of_the_weights():
    args = asked("ddp", "--num_processes", "2")
    assert args.multi_gpu and args.num_processes == 2
    check_launch(prepare_multi_gpu_env(args))


def test_zero_stage_2_shards_no_weights():
    environment = with_deepspeed()
    assert environment["ACCELERATE_DEEPSPEED_ZERO_STAGE"] == "2"
    check_launch(environment)


def test_sharded_weights_are_refused():
    environment = with_deepspeed("--zero_stage", "3")
    with pytest.raises(TrainError, match=r"zero_stage: 3: completions cannot be drawn from sharded weights: launch"):
        check_launch(environment)
    environment = prepare_multi_gpu_env(asked("ddp", "--use_fsdp"))
    with pytest.raises(TrainError, match="distributed_type: FSDP: completions cannot be drawn"):
        check_launch(environment)
