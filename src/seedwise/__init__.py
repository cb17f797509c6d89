"""seedwise: train RLVR methods over seeds, evaluate them, and test which one wins."""

import os

# pydantic looks for plugins in every installed package at its first model: a tenth of a second, and we use none.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
