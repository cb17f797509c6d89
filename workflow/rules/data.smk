rule data:
    input:
        ancient(excluded_problems),
    output:
        "results/data/{problems}.parquet",
    log:
        "results/logs/data/{problems}.log",
    params:
        id="{problems}",
    shell:
        "seedwise data {params.id:q} > {log:q} 2>&1"
