"""Exit codes, for pipelines. Their numbers never change; docs/cli.md "Exit codes" lists them."""

from enum import IntEnum


class ExitCode(IntEnum):
    PASSED = 0
    REFUSED = 1
    USAGE = 2
    GATE_FAILED = 3
    RUN_STOPPED = 4
    TIMED_OUT = 5
    UNREACHABLE = 6
    NOT_AUTHORISED = 7
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.PASSED: "done; for `wait` and `gate`: the run finished and every limit holds",
    ExitCode.REFUSED: "the server refused or does not know it, e.g. a run that does not exist",
    ExitCode.USAGE: "bad usage: an argument or setting that cannot be used",
    ExitCode.GATE_FAILED: "the run finished, but a limit does not hold",
    ExitCode.RUN_STOPPED: "the run was stopped before it finished",
    ExitCode.TIMED_OUT: "the time was up before the run ended; it is left as it is",
    ExitCode.UNREACHABLE: "the server cannot be reached or does not answer like Gyre",
    ExitCode.NOT_AUTHORISED: "no token, an unknown or expired one, or one without the scope that is needed",
    ExitCode.INTERRUPTED: "interrupted; the run goes on",
}
