"""Row locks leave keys alone: FOR UPDATE would block the foreign-key checks of rows that point to the locked one."""

import re

from sources import text_of, tracked_files


def test_every_row_lock_is_one_without_the_key() -> None:
    with_key = [
        f"{path}: {found}"
        for path in tracked_files()
        if path.suffix == ".py" and path.parts[0] != "tests"
        for found in re.findall(r"select_for_update\((?!.*no_key=True).*|FOR UPDATE\b.*", text_of(path))
    ]
    assert with_key == []
