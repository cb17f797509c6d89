# The sample files lie beside the record, undeclared: they are a store that is added to, never deleted.
rule sample:
    input:
        ancient(weights),
        ancient(ASKED),
    output:
        "results/runs/{run}/samples/{id}.json",
    log:
        "results/logs/sample/{run}.{id}.log",
    params:
        id="{run}",
    shell:
        "seedwise sample {params.id:q} > {log:q} 2>&1"


rule score:
    input:
        ancient(SAMPLED),
        ancient(ASKED),
    output:
        "results/runs/{run}/evals/{id}/scores.parquet",
        "results/runs/{run}/evals/{id}/scores.json",
    log:
        "results/logs/score/{run}.{id}.log",
    params:
        id="{run}",
    shell:
        "seedwise score {params.id:q} > {log:q} 2>&1"


rule measure:
    input:
        ancient(SAMPLED),
        ancient(SCORED),
        ancient(BASE_SCORED),
    output:
        "results/runs/{run}/measures/{id}.parquet",
    log:
        "results/logs/measure/{run}.{id}.log",
    params:
        id="{run}",
    shell:
        "seedwise measure {params.id:q} > {log:q} 2>&1"
