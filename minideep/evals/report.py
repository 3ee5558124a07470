"""The report of an evaluation: a table for people, JSON and JUnit XML for machines, and the comparison with another."""

import msgspec

from ..checks import checked
from ..errors import ConfigError
from ..plain_json import from_json, to_json
from .cases import Cases
from .comparison import Comparison, compared
from .junit import junit
from .tables import table


class Report(Cases, frozen=True):
    """The results of a golden set, in its order: of each golden all its runs."""

    def table(self) -> str:
        """Return a line for each golden with its failures below it, and the totals. Control characters are escaped."""
        return table(self)

    def junit(self) -> str:
        """Return JUnit XML: one suite with a test for each case, and a failure for each failed assertion."""
        return junit(self)

    def json(self) -> str:
        """Return the report as JSON, with every field by its name."""
        return to_json(msgspec.to_builtins(self)).decode()

    @classmethod
    @checked
    def from_json(cls, raw: str | bytes) -> "Report":
        """Return the report that `json` wrote. Fields that this version does not know are ignored.

        Raises:
            ConfigError: it is not a report.
        """
        try:
            return msgspec.convert(from_json(raw), cls)
        except (msgspec.ValidationError, ValueError, RecursionError) as exc:
            raise ConfigError(f"this is not a report that `Report.json` wrote: {exc}") from None

    @checked
    def compare(self, baseline: "Report") -> "Comparison":
        """Compare this report with an earlier one, golden by golden."""
        return compared(self, baseline)
