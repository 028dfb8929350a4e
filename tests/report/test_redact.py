"""What a redacted record still says, and of whom."""

from likewise.data import read
from likewise.report.html import to_html
from likewise.report.redact import redact


def test_a_value_quoted_in_a_note_is_hidden(record, tmp_path):
    rows = "".join(f"{i},{i % 2}\n" for i in range(9))
    (tmp_path / "people.csv").write_text(f'born,y\n"J. O\'Neil among its 1971",0\n{rows}')
    people = read(tmp_path / "people.csv", label="y", protected="born", raw=True)
    assert "O'Neil" in people.notes[0]
    data = record.data.model_copy(update={"notes": people.notes})
    hidden = redact(record.model_copy(update={"data": data}))
    assert "Neil" not in hidden.to_json() + to_html(hidden)
    assert hidden.data.notes == (
        "Column 'born' is read as text, because it holds hidden text among its numbers.",
    )
