"""Side-by-side measurements against peers, as ratios taken in one run: `python -m bench [name ...]`."""
