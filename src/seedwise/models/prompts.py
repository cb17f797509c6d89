"""How a model is spoken to: chat template around a prompt, tokens that end a completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from seedwise.study import ModelSpec


class PromptError(ValueError):
    """A model that cannot be spoken to as the study says; the message is one line with the remedy."""


def spoken(spec: ModelSpec, tokenizer: PreTrainedTokenizerBase, problems: pd.DataFrame) -> pd.DataFrame:
    """The problems (tables.PROBLEMS) with the model's chat template put around every prompt; as they are without one.

    Where the tokenizer puts a first token before every text and the template does too, the template's is left out.
    Raises PromptError where the study asks for the tokenizer's own template and it has none, or for a mode of thinking
    that the template does not know.
    """
    if spec.chat_template is None:
        return problems
    template = None if spec.chat_template == "tokenizer" else spec.chat_template
    if template is None and not tokenizer.chat_template:
        raise PromptError(
            "chat_template: 'tokenizer': this tokenizer has none: give the Jinja text, or null for a base model"
        )
    mode: dict[str, Any] = {} if spec.thinking is None else {"enable_thinking": spec.thinking}
    if mode and "enable_thinking" not in tokenizer.get_chat_template(template):
        raise PromptError(
            f"thinking: {str(spec.thinking).lower()}: this chat template has no enable_thinking: give null, or a "
            "template that has it"
        )
    first = _put_first(tokenizer)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}],
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
            **mode,
        ).removeprefix(first)
        for prompt in problems["prompt"]
    ]
    return problems.assign(prompt=prompts)


def _put_first(tokenizer: PreTrainedTokenizerBase) -> str:
    """What the tokenizer puts before every text by itself: its first token, or nothing."""
    begins = tokenizer.bos_token_id is not None and tokenizer("a")["input_ids"][0] == tokenizer.bos_token_id
    return str(tokenizer.bos_token) if begins else ""


def stop_token_ids(spec: ModelSpec, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The model's own end token and the study's ``stop`` tokens.

    Raises PromptError for a stop text that is not one token of this tokenizer.
    """
    ids = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
    ids += [token_id(tokenizer, "stop", text) for text in spec.stop]
    if not ids:
        raise PromptError("stop: this tokenizer has no end token: name one under stop")
    return tuple(dict.fromkeys(ids))


def token_id(tokenizer: PreTrainedTokenizerBase, key: str, text: str) -> int:
    """The token that a text is.  Raises PromptError naming the study's key where it is none, or several."""
    encoded = tokenizer.encode(text, add_special_tokens=False)
    if len(encoded) != 1:
        raise PromptError(f"{key}: {text!r} is {len(encoded)} tokens of this tokenizer: give a text that is one token")
    return int(encoded[0])
