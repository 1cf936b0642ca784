"""The functions of `scipy.special` that prices need, without what its import copies from numpy and does not use.

`import scipy.special` copies every public name of numpy, which loads f2py, masked arrays, polynomials and test
tools: a sixth of the start-up of `reticent bound`.
"""

from reticent.accounting.stand_ins import standing_in

with standing_in("numpy.f2py", "numpy.ma", "numpy.polynomial", "numpy.testing"):
    from scipy.special import bdtrc, gammaln, log_ndtr, logsumexp, ndtr

__all__ = ["bdtrc", "gammaln", "log_ndtr", "logsumexp", "ndtr"]
