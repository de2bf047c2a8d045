"""What the README says is what the code does."""

from pathlib import Path

from resilient_ov_manager.knobs import knobs_table

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_knobs_are_those_of_the_code() -> None:
    assert knobs_table() in README


def test_the_readme_begins_with_the_problem_and_names_two_commands() -> None:
    head = README[:3000]
    assert "freeze the gateway" in head
    assert "make demo" in head
    assert "make test" in head
