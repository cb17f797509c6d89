"""From score tables to comparison tables, figures and the report page."""
