"""`reticent audit`: a subject, a plan, attacks in one file each, and the run that sets findings beside proofs."""
