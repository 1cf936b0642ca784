"""Findings and guarantees as sentences, tables and charts: Markdown, and one self-contained HTML page."""
