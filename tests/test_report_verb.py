"""The verb `report`: where the page is written, and what cannot be done."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_runs import RUN_ID, a_night

from bot.cli import report as reporting
from bot.cli.process import run
from bot.errors import UsageError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run with something of everything."""
    return a_night(tmp_path_factory.mktemp("night"), 21_050)


def test_the_verb_writes_the_page_and_prints_where(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", "latest", "--runs-dir", str(night.parent)]) == 0
    assert capsys.readouterr().out == f"{RUN_ID}.html\n"
    assert [path.name for path in tmp_path.iterdir()] == [f"{RUN_ID}.html"]
    assert "21,050 points banked" in (tmp_path / f"{RUN_ID}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["path", "run id"])
def test_a_run_is_named_by_its_path_or_its_id(night: Path, tmp_path: Path, name: str) -> None:
    named = str(night) if name == "path" else RUN_ID
    out = tmp_path / "page.html"
    code = run(["report", named, "--runs-dir", str(night.parent), "--output", str(out)])
    assert code == 0
    assert out.is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "name a RUN"),
        (["latest", "--all"], 2, "name a RUN"),
        (["nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["latest", "--runs-dir", "nowhere"], 2, "nowhere"),
        (["--all", "--runs-dir", "nowhere"], 2, "there is no runs folder nowhere"),
        (["--all", "--runs-dir", "/dev/null"], 74, "the runs folder /dev/null: Not a directory"),
        (["--all", "--runs-dir", "x" * 300], 74, "cannot read the runs folder xxx"),
        ([RUN_ID, "--output", "x.jsonl"], 2, "a journal is never written over"),
        ([RUN_ID, "--output", "x.jsonl.gz"], 2, "a journal is never written over"),
        ([RUN_ID, "--output", "no/such/folder/x.html"], 2, "cannot write the report"),
        ([RUN_ID, "--output", "x" * 300], 2, "x: File name too long"),
        ([RUN_ID, "--output", "/dev/null/x.html"], 2, "x.html: Not a directory"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    night: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = [] if "--runs-dir" in arguments else ["--runs-dir", str(night.parent)]
    assert run(["report", *arguments, *folder]) == code
    told = capsys.readouterr()
    assert message in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [[RUN_ID], ["--all"]], ids=["one", "all"])
def test_without_the_extra_it_says_how_to_get_it(
    night: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.setattr(reporting, "PARTS", ("jinja2", "no_such_package"))
    assert run(["report", *arguments, "--runs-dir", str(night.parent)]) == 78
    assert capsys.readouterr().err == (
        "sunpleat-bot: the report needs no_such_package; in the project's folder, "
        ".venv/bin/pip install -r .ci/requirements/report.txt brings it\n"
    )


def test_a_page_is_written_whole_or_not_at_all(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "page.html"
    out.write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    assert run(["report", str(night), "--output", str(out)]) == 2
    monkeypatch.undo()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("page.html", "before")
    ]


def test_the_page_of_all_runs_leads_to_the_pages_beside_it(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = ["--runs-dir", str(night.parent)]
    assert run(["report", "latest", *folder]) == 0
    assert run(["report", "--all", *folder]) == 0
    assert f'<a href="{RUN_ID}.html">' in Path("runs.html").read_text(encoding="utf-8")
    assert run(["report", "--all", *folder, "--output", str(night.parent / "all.html")]) == 0
    assert "<a " not in (night.parent / "all.html").read_text(encoding="utf-8")


def test_a_report_never_takes_the_place_of_a_device(tmp_path: Path) -> None:
    link = tmp_path / "page.html"
    link.symlink_to("/dev/null")
    with pytest.raises(UsageError, match="a device, not a plain file"):
        reporting.write_page(link, "<p>")
    assert Path("/dev/null").is_char_device()


def test_a_report_with_a_long_name_is_written(tmp_path: Path) -> None:
    page = tmp_path / f"{'x' * 250}.html"
    reporting.write_page(page, "<p>")
    assert [*tmp_path.iterdir()] == [page]


def test_a_report_is_not_written_through_links_in_a_circle(tmp_path: Path) -> None:
    link = tmp_path / "page.html"
    link.symlink_to(link)
    with pytest.raises(
        UsageError, match=r"cannot write the report .*page\.html: a link, not a plain file"
    ):
        reporting.write_page(link, "<p>")


def test_a_report_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text("old")
    link = tmp_path / "page.html"
    link.symlink_to("there.html")
    reporting.write_page(link, "<p>")
    assert link.is_symlink()
    assert (tmp_path / "there.html").read_text() == "<p>"
