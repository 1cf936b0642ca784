"""A report as files: an HTML page, Markdown, JUnit XML, SARIF, a model card, an annex."""
