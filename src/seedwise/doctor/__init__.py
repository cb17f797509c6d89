"""Whether a study can run here: each check asks one thing and says what to do; nothing is changed.

``finding`` is what a check says, ``profile`` what a Snakemake profile asks of a cluster, ``slurm`` what the cluster
says, ``probe`` what a job on a compute node says, ``machine`` disk, tracking store, models and data, ``examine`` all.
"""
