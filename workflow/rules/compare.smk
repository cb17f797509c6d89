rule analyse:
    input:
        ancient(ANALYSED),
    output:
        LAYOUT.marker("analysis"),
    log:
        f"results/logs/{NAME}.analyse.log",
    params:
        id=LAYOUT.analysis_id,
    shell:
        "seedwise analyse > {log:q} 2>&1"
