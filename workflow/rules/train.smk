# Weights and the state a killed training continues from are undeclared on purpose: Snakemake deletes
# the declared outputs of a failed job.  trained.json is written last and says that all is published.
rule train:
    input:
        ancient(TRAINING_DATA),
        ancient(BACKBONE),
        ancient(ORIGIN),
    output:
        "results/runs/{run}/spec.json",
        "results/runs/{run}/metrics.parquet",
        "results/runs/{run}/timing.parquet",
        "results/runs/{run}/trained.json",
    log:
        "results/logs/train/{run}.log",
    params:
        id="{run}",
    shell:
        "seedwise train {params.id:q} > {log:q} 2>&1"
