"""seedwise: train -> sample -> score -> resample -> analyse -> report.  See workflow/rules."""


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/base.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/resample.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        LAYOUT.report,
        LAYOUT.marker("report"),
        LAYOUT.marker("tracking"),
