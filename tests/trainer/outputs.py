"""What a training published, read back."""

from safetensors.torch import load_file


def weights(out, step):
    """The whole model's weights at a step."""
    return load_file(out / "checkpoints" / str(step) / "model.safetensors")


def value(metrics, step, name):
    """A metric's value at a step; it must be there once."""
    row = metrics[(metrics.step == step) & (metrics.name == name)]
    assert len(row) == 1, f"{name} at step {step}"
    return row.iloc[0]["value"]
