"""The fixtures of tests/report."""

from tests.report.conftest import house as house
