"""How a model is spoken to: keys of the study's models, and part of what an evaluation is."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tokenizers.processors import TemplateProcessing
from workflow.study_file import changed

from seedwise.grid import expand
from seedwise.layout import Layout
from seedwise.models.embedded import tokenizer as embedded_tokenizer
from seedwise.models.prompts import PromptError, spoken, stop_token_ids, token_id
from seedwise.reading import parse
from seedwise.study import ModelSpec, StudyError

# as Qwen3's own: without thinking the answer begins after an empty thought
TEMPLATE = (
    "{% for m in messages %}({{ m.content }}){% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}-{% endif %}"
)


def spec(**keys: Any) -> ModelSpec:
    return ModelSpec.model_validate({"kind": "embedded", **keys})


def prompts(model: ModelSpec, tokenizer: Any = None) -> list[str]:
    found = spoken(model, tokenizer or embedded_tokenizer(), pd.DataFrame({"prompt": ["1+1=", "2"]}))
    return found["prompt"].tolist()


def test_a_chat_template_stands_around_the_prompt_in_the_mode_that_is_asked() -> None:
    assert prompts(spec()) == ["1+1=", "2"]
    assert prompts(spec(chat_template=TEMPLATE)) == ["(1+1=)", "(2)"]
    assert prompts(spec(chat_template=TEMPLATE, thinking=True)) == ["(1+1=)", "(2)"]
    assert prompts(spec(chat_template=TEMPLATE, thinking=False)) == ["(1+1=)-", "(2)-"]
    own = copy.deepcopy(embedded_tokenizer())
    own.chat_template = TEMPLATE
    assert prompts(spec(chat_template="tokenizer", thinking=False), own) == ["(1+1=)-", "(2)-"]


def test_a_mode_that_no_template_hears_of_is_refused() -> None:
    with pytest.raises(PromptError, match="thinking: false: this chat template has no enable_thinking: give null"):
        prompts(spec(chat_template="{{ messages[0].content }}", thinking=False))
    with pytest.raises(StudyError, match="thinking is told by a chat template"):
        parse(changed(**{"models.embedded.thinking": True}))
    with pytest.raises(PromptError, match="'tokenizer': this tokenizer has none"):
        prompts(spec(chat_template="tokenizer"))


def test_tokens_by_their_text() -> None:
    tokenizer = embedded_tokenizer()
    assert token_id(tokenizer, "stop", "=") == tokenizer.convert_tokens_to_ids("=")
    assert stop_token_ids(spec(stop=("=",)), tokenizer) == (tokenizer.eos_token_id, token_id(tokenizer, "stop", "="))
    with pytest.raises(
        PromptError, match="end_of_thinking: '12' is 2 tokens of this tokenizer: give a text that is one"
    ):
        token_id(tokenizer, "end_of_thinking", "12")


def test_a_first_token_of_template_and_tokenizer_stands_once() -> None:
    own = embedded_tokenizer()
    own.add_special_tokens({"bos_token": "<s>"})
    template = "{{ bos_token }}" + TEMPLATE
    # as Llama 3: the template writes it
    assert prompts(spec(chat_template=template), own) == ["<s>(1+1=)", "<s>(2)"]
    first = own.bos_token_id
    own.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", first)])
    assert prompts(spec(chat_template=template), own) == ["(1+1=)", "(2)"]
    assert [ids.count(first) for ids in own(prompts(spec(chat_template=template), own))["input_ids"]] == [1, 1]
    assert prompts(spec(chat_template=TEMPLATE), own) == ["(1+1=)", "(2)"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("template", "{question}"), ("chat_template", "({{ messages }})"), ("thinking", True), ("stop", ["="])],
)
def test_how_a_model_is_spoken_to_is_part_of_what_its_samples_and_scores_are(key: str, value: Any) -> None:
    before, after = (
        Layout(expand(parse(changed(**{"models.embedded.chat_template": TEMPLATE, **more}))), Path("results"))
        for more in ({}, {f"models.embedded.{key}": value})
    )
    for kind in ("runs", "bases"):
        old, new = (list(getattr(layout.grid, kind)) for layout in (before, after))
        assert len(old) == len(new) and not set(old) & set(new)
    assert {before.scores(name) for name in before.subjects}.isdisjoint(after.scores(name) for name in after.subjects)
