"""What must run again and why, what is running, whether what is stored is still what it says, and what is left over.

Names hold identity, so all of this is read off files; nothing here starts Snakemake or imports torch.
"""


class RerunError(ValueError):
    """A question about reruns that cannot be answered as asked; one line with the remedy."""
