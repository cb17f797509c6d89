rule base:
    output:
        "results/models/{model}/files.json",
    log:
        "results/logs/base/{model}.log",
    params:
        id="{model}",
    shell:
        "seedwise base {params.id:q} > {log:q} 2>&1"
