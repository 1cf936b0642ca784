"""See, prevent and prove what a language model gives away of its training text.

Importing this package is cheap and never imports torch; each layer is imported by name
(`reticent.core`, `reticent.accounting`, `reticent.models`, ...).
"""

__version__ = "0.2.0"
