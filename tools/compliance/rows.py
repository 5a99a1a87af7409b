"""Reads the rows of the compliance tables: rule, code, tests. The head of a table names the columns. If a table has no column for the
section, the heading above the table has the section in brackets."""
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
TABLES = ["rfc4340", "rfc4341", "rfc4342", "rfc9897", "wire"]
SPAN = re.compile(r"`([^`]+)`")


class Row:
    def __init__(self, table, line, rfc, section, rule, code, test):
        self.table, self.line, self.section, self.rule, self.test = table, line, section, rule, test
        # The pairs of RFC and section that the row names. The RFC is that of the heading or of the table,
        # unless the section names another one, such as `5596: 2.2.1` or `8.1.3 (RFC 5595, 3.3.1)`. The rule
        # may name further sections, such as `(RFC 2104, 2)`.
        self.places = set(re.findall(r"\(RFC (\d{4}), ([0-9.]+)\)", rule))
        for number in re.findall(r"\d+(?:\.\d+)*", section):
            if re.fullmatch(r"\d{4}", number):
                rfc = number
            else:
                self.places.add((rfc, number))
        self.code, self.tests = SPAN.findall(code), SPAN.findall(test)
        # If a row has no test, it says `left out` if the rule is not implemented, or `no test` if no test can
        # observe the rule.
        self.reason = re.match(r"(left out|no test): \w", test) is not None
        self.same = not self.reason and "same" in test

    def __str__(self):
        return f"docs/{self.table}.md:{self.line}: {self.section} {self.rule[:60]}"


def rows():
    """All rows of tables that have a column for tests."""
    found = []
    for table in TABLES:
        columns, previous, heading, rfc = None, None, "", table[3:]
        for number, text in enumerate((TOP / "docs" / f"{table}.md").read_text().splitlines(), 1):
            if text.startswith("#"):
                bracket = re.search(r"\(([0-9., ]+)\)$", text)
                heading = bracket[1] if bracket else ""
                named = re.search(r"RFC (\d{4})", text)
                rfc = named[1] if named else table[3:]
            if not text.startswith("|"):
                columns = None
                continue
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
            if columns is None:
                columns = {name: i for i, name in enumerate(cells)}
                continue
            if set(text) <= set("|-: ") or "test" not in columns or "rule" not in columns:
                continue
            cell = lambda name: cells[columns[name]] if name in columns and columns[name] < len(cells) else ""
            row = Row(table, number, rfc, cell("section") or heading, cell("rule"), cell("code"), cell("test"))
            if row.same and previous is not None:
                row.tests = previous.tests + row.tests
            found.append(row)
            previous = row
    return found
