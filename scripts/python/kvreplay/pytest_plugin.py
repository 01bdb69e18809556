"""A plugin of pytest: pytest --kvreplay-policy FILE.py:CLASS checks a policy by the conformance kit."""

from __future__ import annotations

import pytest

from .program import Error


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("kvreplay")
    group.addoption("--kvreplay-policy", action="append", default=[], metavar="FILE.py:CLASS", help="check this policy by the conformance kit of kvreplay, one test per check")
    group.addoption("--kvreplay-short", action="store_true", help="draw fewer streams")
    group.addoption("--kvreplay-seed", type=int, default=0, metavar="SEED", help="draw only the stream of this seed, which a failure prints")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add a test for each check of each policy."""
    for policy in config.getoption("--kvreplay-policy"):
        from .results import list_checks  # imports pandas, which other runs of pytest need not wait for

        try:
            names = list_checks(policy)
        except Error as e:
            raise pytest.UsageError(f"--kvreplay-policy {policy}: {e}") from e
        items.extend(Check.from_parent(session, name=f"{policy}::{name}", policy=policy, check=name) for name in names)


class Check(pytest.Item):
    """One check of one policy."""

    def __init__(self, *, policy: str, check: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.policy, self.check = policy, check

    def runtest(self) -> None:
        """Run the check."""
        from .results import check

        check(self.policy, [self.check], short=self.config.getoption("--kvreplay-short"), seed=self.config.getoption("--kvreplay-seed"))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Show the counterexample without a traceback of this package."""
        if isinstance(excinfo.value, Error):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[str, None, str]:
        """Name the test."""
        return self.policy, None, self.name
