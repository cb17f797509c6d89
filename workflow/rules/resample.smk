rule resample:
    input:
        ancient(weights),
        ancient(SCORED),
        ancient(SAMPLED),
        ancient(RESAMPLED),
    output:
        "results/runs/{run}/resample/{id}.parquet",
        "results/runs/{run}/resample/{id}.chosen.parquet",
        "results/runs/{run}/resample/{id}.along.parquet",
        "results/runs/{run}/resample/{id}.words.parquet",
        "results/runs/{run}/resample/{id}.example.parquet",
        "results/runs/{run}/resample/{id}.json",
    log:
        "results/logs/resample/{run}.{id}.log",
    params:
        id="{run}",
    shell:
        "seedwise resample {params.id:q} > {log:q} 2>&1"
