"""Layer 2: findings and guarantees as sentences, Markdown and one HTML page."""
