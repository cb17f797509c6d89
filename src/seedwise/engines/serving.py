"""One engine for a whole job: it is started once and given one checkpoint after another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seedwise.engines.settings import EngineSettings, OnVllm

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seedwise.engines.base import ReadingEngine


@dataclass(frozen=True)
class Weights:
    """folder: a whole model.  adapter: folder of a peft adapter on it, or None."""

    folder: Path
    adapter: Path | None = None


class Host(Protocol):
    """What holds one set of weights at a time."""

    def hold(self, weights: Weights) -> tuple[ReadingEngine, PreTrainedTokenizerBase]:
        """An engine on these weights, and their tokenizer.  Nothing is loaded before the first call.

        Raises SafetensorError or json.JSONDecodeError where a file is cut short or damaged.
        """
        ...

    def close(self) -> None:
        """Give back memory and processes."""
        ...


class InMemory:
    """A model of transformers, loaded anew for every set of weights."""

    def hold(self, weights: Weights) -> tuple[ReadingEngine, PreTrainedTokenizerBase]:
        """See ``Host``."""
        from seedwise.engines.transformers import Transformers
        from seedwise.models.load import load

        model, tokenizer = load(weights.folder, adapter=weights.adapter)
        return Transformers(model, tokenizer, batch=512), tokenizer

    def close(self) -> None:
        """Nothing but memory is held."""


@contextmanager
def opened(settings: EngineSettings) -> Iterator[Host]:
    """The host that the settings name, closed at the end."""
    if isinstance(settings, OnVllm):
        from seedwise.engines.vllm import VllmHost

        host: Host = VllmHost(settings)
    else:
        host = InMemory()
    try:
        yield host
    finally:
        host.close()
