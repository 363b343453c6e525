"""Third parties warn while they are imported, and warnings are errors here: import them once, quietly, beforehand."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import trainers.cell.training.trainer  # noqa: F401
