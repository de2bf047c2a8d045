"""The chaos suite: faults, traffic, checkers, report."""
