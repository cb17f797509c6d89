"""A model of a few thousand weights, problems it sometimes solves by chance, and runs on them."""

import json

import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, set_seed

from seedwise import tables
from seedwise.algos import presets
from seedwise.study import Grading, ModelSpec, Run, Train
from seedwise.trainer import run as story

torch.set_num_threads(1)
CHARACTERS = [*"01#+="]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A tiny model and a tokenizer with a token per character: noughts, ones, and # before the answer."""
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", "<unk>", *CHARACTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    set_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(vocabulary),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    teach(model, tokenizer)
    folder = tmp_path_factory.mktemp("model")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def teach(model, tokenizer):
    """Some steps on answers of the right form, with every bit as likely as the other: right by chance half the time."""
    texts = [f"{a}+{b}={work}#{bit}" for a in "01" for b in "01" for work in ("", "0", "01", "110") for bit in "01"]
    ids_BT = torch.tensor(tokenizer([text.ljust(10, "?") for text in texts])["input_ids"])
    ends = [len(text) for text in texts]
    labels_BT = ids_BT.clone()
    for row, end in enumerate(ends):
        ids_BT[row, end:], labels_BT[row, end], labels_BT[row, end + 1 :] = 1, 1, -100
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        model(input_ids=ids_BT, labels=labels_BT).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(scope="session")
def problems():
    """Six sums of bits; a completion's answer is what follows its last #."""
    metadata = json.dumps({"answer_rule": {"rule": "marker", "marker": "#"}, "entry": {}})
    sums = [("0+0=", "0"), ("0+1=", "1"), ("1+0=", "1"), ("00+0=", "0"), ("0+01=", "1"), ("10+0=", "10")]
    return pd.DataFrame(
        {
            "problem": f"sum-{i}",
            "prompt": prompt,
            "answer": answer,
            "source": "by hand",
            "verifier": "math_verify",
            "difficulty": None,
            "metadata": metadata,
        }
        for i, (prompt, answer) in enumerate(sums)
    )


@pytest.fixture(scope="session")
def make_run():
    """A run of 4 steps of 16 completions, with any setting of ``train`` and ``model`` replaced."""

    def make(algorithm=None, *, lora=None, seed=0, group_size=8, lineage=None, **train):
        settings = {
            "steps": 4, "completions": 16, "micro_batch": 8, "max_tokens": 6, "lr": 1e-2,
            "checkpoints": (2, 4), "save_every": 2, "words": ("0", "wait"),
        }  # fmt: skip
        return Run(
            name=f"tiny.s{seed}-00000000",
            method="tiny",
            model_name="tiny",
            model=ModelSpec(kind="folder", path="here", lora=lora),
            algorithm=algorithm or presets.clip_higher(),
            group_size=group_size,
            seed=seed,
            setting=f"G{group_size}",
            axes={},
            train=Train(**{**settings, **train}),
            grading=Grading(),
            data="sums-00000000",
            base="tiny-00000000",
            lineage=lineage,
        )

    return make


@pytest.fixture
def train(model_folder, problems, tmp_path):
    """Train under tmp_path/runs/<name>, with tmp_path/work/<name> to work in, and return (out, metrics)."""

    def go(run, name="run"):
        out, work = tmp_path / "runs" / name, tmp_path / "work" / name
        spec = {"run": run.model_dump(mode="json")}
        story.train(run, model_folder=model_folder, problems=problems, out=out, work=work, spec=spec, workers=1)
        return out, tables.read(tables.METRICS, out / "metrics.parquet")

    return go
