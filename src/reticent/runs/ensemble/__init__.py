"""Ensembles: training their members, and answering from them."""
