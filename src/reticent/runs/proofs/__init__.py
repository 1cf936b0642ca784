"""What is proved of a run on disk: certificates, ancestry, releases of one corpus, and all of it derived again."""
