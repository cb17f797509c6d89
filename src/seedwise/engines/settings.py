"""Which engine serves a stage, and on what: the hardware side, kept out of studies and of every id.

Reading settings imports no engine.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class OnTransformers(BaseModel):
    """The engine of the CPU study, which reads weights as float32 (engines/transformers.py).

    python: interpreter that runs the stage; null for the one that runs everything else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    engine: Literal["transformers"] = "transformers"
    python: str | None = Field(default=None, min_length=1)


class OnVllm(BaseModel):
    """vLLM's offline engine (engines/vllm.py).

    tensor_parallel: devices that share each layer.
    memory_share: share of a device's memory that the engine may take; on a CPU, of the machine's memory.
    dtype: of weights and activations.
    max_length: tokens of prompt and completion together at most; null for as many as the model has positions.
    enforce_eager: compile nothing: a start in seconds, slower tokens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    engine: Literal["vllm"]
    python: str | None = Field(default=None, min_length=1)
    tensor_parallel: int = Field(default=1, ge=1)
    memory_share: float = Field(default=0.9, gt=0, le=1)
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    max_length: int | None = Field(default=None, ge=2)
    enforce_eager: bool = False


EngineSettings = Annotated[OnTransformers | OnVllm, Field(discriminator="engine")]
