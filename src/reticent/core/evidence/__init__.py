"""What a run leaves beside its weights for those who check it: certificate, canary trace, bounds per record."""
