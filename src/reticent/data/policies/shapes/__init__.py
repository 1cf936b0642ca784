"""What gives itself away by its shape: numbers with checksums, phones, streets, credentials, circumstances."""
