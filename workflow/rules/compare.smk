rule analyse:
    input:
        ancient(SCORES),
        ancient(CONTINUED),
    output:
        LAYOUT.marker("analysis"),
    log:
        f"results/logs/{NAME}.analyse.log",
    params:
        id=LAYOUT.analysis_id,
    shell:
        "seedwise analyse > {log:q} 2>&1"
