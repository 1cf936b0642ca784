"""Stops the search for garbage, when imported: the modules that follow are kept, so that it would find none.

The first import of the server that processes are forked from (`tests/processes.py`). The last one, `warm_policies`,
takes it up again, for what comes after.
"""

import gc

gc.disable()
