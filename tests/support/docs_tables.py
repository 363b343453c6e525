"""Tables in docs/ that tests hold to the truth, and that their modules write anew when they are run."""

from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class DocsTable:
    """What stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a page."""

    page: str
    name: str

    def shown(self) -> str:
        return self._parts()[1]

    def write(self, table: str) -> None:
        before, _, after = self._parts()
        (DOCS / self.page).write_text(before + table + after)

    def _parts(self) -> tuple[str, str, str]:
        begin, end = (f"<!-- {self.name}: {edge} -->" for edge in ("begin", "end"))
        before, opened, rest = (DOCS / self.page).read_text().partition(f"{begin}\n")
        shown, closed, after = rest.partition(end)
        assert opened, f"docs/{self.page} has no {begin}"
        assert closed, f"docs/{self.page} has no {end}"
        return before + opened, shown, closed + after
