"""The report of a run: JUnit, table, journal, history, plots."""
