"""Which rules decided: a fingerprint of the code of `scheduler.core` that decides, stored beside each snapshot.

Other rules may decide otherwise on the same snapshot, so a replay compares only what the present rules decided.
"""

import ast
import hashlib
from functools import cache
from pathlib import Path

import scheduler.core


@cache
def fingerprint() -> str:
    """The same for the same code, on any machine, however it is commented and laid out."""
    root = Path(scheduler.core.__path__[0])
    return fingerprint_of({path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*.py")})


def fingerprint_of(sources: dict[str, str]) -> str:
    """`sources`: the text of each module by its name."""
    digest = hashlib.sha256()
    for name, source in sorted(sources.items()):
        digest.update(f"{name}\0{_without_docstrings(source)}\0".encode())
    return digest.hexdigest()[:16]


def _without_docstrings(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
