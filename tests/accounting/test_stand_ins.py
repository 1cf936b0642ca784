"""What is left unloaded for a quick start is whole for whoever asks for it afterwards."""

import subprocess
import sys

UNLOADED = """
import sys
import reticent.accounting.guarantees
from reticent.accounting.light_imports import ndtr
left_out = "numpy.f2py numpy.ma numpy.testing scipy.special scipy.signal scipy.stats dp_accounting"
print(*(name for name in left_out.split() if name in sys.modules))
import numpy, scipy.special, scipy.signal, scipy.stats, dp_accounting
assert scipy.special.ndtr is ndtr and scipy.special.logsumexp([0.0]) == 0.0
assert numpy.ma.array([1.0, 2.0], mask=[True, False]).sum() == 2.0
assert scipy.stats.norm.cdf(0.0) == 0.5
assert scipy.signal.lfilter([1.0], [2.0], [4.0]).tolist() == [2.0]
assert dp_accounting.pld.PLDAccountant and dp_accounting.GaussianDpEvent(1.0)
"""


def test_heavy_modules_stay_out_and_are_whole_for_whoever_imports_them_later():
    done = subprocess.run([sys.executable, "-c", UNLOADED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
