"""Syntax trees of the repository's own files, each parsed and walked once for all tests that read them.

A dozen checks look at every file of the package. A tree from here is shared: whoever changes one parses its own.
"""

import ast
from functools import cache


@cache
def tree_of(code: str) -> ast.Module:
    """The syntax tree of a file's text."""
    return ast.parse(code)


@cache
def nodes_of(code: str) -> tuple[ast.AST, ...]:
    """All nodes of a file's text, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(code)))
