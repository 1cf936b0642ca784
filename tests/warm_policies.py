"""Reads, when imported, the words, names and places that the default policy reads when it is first used.

For the server that processes are forked from (`tests/processes.py`): each of them would read them anew.
"""

import gc

from reticent.runs.policies.by_name import DEFAULT_POLICY, policy_named

policy_named(DEFAULT_POLICY).find(["Order 37 is late. Please call Emma Meyer in Berlin at 415-555-0137."])
gc.freeze()  # see `kept_imports`
gc.enable()
