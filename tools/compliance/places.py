"""Finds the places, which are the pieces of code that implement RFC rules and that `mutate` turns off."""
import functools
import hashlib
import re
import tomllib

from rows import TOP, rows

CRATES = ["dccp-proto", "dccp-wire", "mpdccp-proto", "dccp-cc"]
ENTRIES = tomllib.loads((TOP / "tools" / "compliance" / "instead.toml").read_text())
INSTEAD, STANDS, REDUNDANT = (
    [dict(one, file=file) for file, all in ENTRIES[kind].items() for one in all] for kind in ("instead", "stands", "redundant")
)
CITED = re.compile(r"^\s*// .*?RFC (\d{4})(?:,)? sections? ([0-9.]+)")


def statement(lines, at):
    """The end of the statement or match arm that begins at line `at`; None if it was not found."""
    depth, indent = 0, len(lines[at]) - len(lines[at].lstrip())
    for i in range(at, min(at + 40, len(lines))):
        code = re.sub(r'"(\\.|[^"\\])*"|//.*', "", lines[i])
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if depth < 0:
            return None
        end = code.rstrip()
        follows = lines[i + 1].strip() if i + 1 < len(lines) else ""
        if depth == 0 and (end.endswith((";", ",", "}"))) and not follows.startswith(("else", ".", "}else")):
            whole = end.endswith(";") or len(lines[i]) - len(lines[i].lstrip()) <= indent or i == at
            if whole:
                return i + 1
    return None


def places():
    found = []
    for crate in CRATES:
        for path in sorted((TOP / "crates" / crate / "src").rglob("*.rs")):
            if path.stem.endswith("tests"):
                continue
            lines = path.read_text().splitlines()
            for number, line in enumerate(lines):
                if "#[cfg(test)]" in line and not line.startswith(" "):
                    break
                cited = CITED.match(line)
                if not cited:
                    continue
                at = number + 1
                while at < len(lines) and lines[at].strip().startswith("//"):
                    at += 1
                first = lines[at].strip()
                if at >= len(lines) or re.match(r"(pub|fn|const|struct|enum|impl|use|#|type|trait|static|let \w+ =.*match)\b", first):
                    continue
                end = statement(lines, at)
                if end is not None:
                    found.append(place(crate, path, lines, at, end, cited[1], cited[2].rstrip(".")))
            found += [place(crate, path, lines, *where) for where in named(path, lines)]
    # If instead.toml has an entry for a place inside another place, the entry also applies to the outer
    # place. Leave out the inner place in this case.
    return [one for one in found if not (entries(one) and any(is_within(one, other) for other in found))]


def is_within(one, other):
    same = one["file"] == other["file"] and one["key"] != other["key"]
    return same and other["line"] <= one["line"] and one["end"] <= other["end"]


def anchor(one):
    return one.get("at", one["from"])


def named(path, lines):
    """The places of a file that instead.toml names by section or row, as (first line, end, RFC, section,
    row)."""
    text = "\n".join(lines)
    for one in INSTEAD:
        if not {"section", "row"} & set(one) or not str(path).endswith("/" + one["file"]) or anchor(one) not in text:
            continue
        at = text[: text.index(anchor(one))].count("\n")
        where = (at, at + anchor(one).count("\n") + 1)
        if "section" in one:
            yield (*where, *one["section"].split(), None)
        elif row := row_named(one["row"]):
            rfc, section = min(row.places, default=("", row.section))
            yield (*where, rfc, section, one["row"])


@functools.cache
def all_rows():
    return rows()


def row_named(name):
    """The row whose table, section and rule begin with `name`. None if there is no such row, or more than one."""
    titles = {" ".join(f"{row.table} {row.section} {row.rule}".split()): row for row in all_rows()}
    found = [row for title, row in titles.items() if title.startswith(name)]
    return titles.get(name) or (found[0] if len(found) == 1 else None)


def stands_for(place):
    """Names of the rows that this place also covers according to instead.toml, although it is a place of
    another rule."""
    return [one["row"] for one in STANDS if ("/" + place["file"]).endswith("/" + one["file"]) and one["from"] in place["text"]]


def redundant(place):
    """The reason why no test can notice that the place is missing, if there is one."""
    return next((one["why"] for one in REDUNDANT if ("/" + place["file"]).endswith("/" + one["file"]) and one["from"] in place["text"]), None)


def rows_of(place):
    """The rows that the place implements: the rows that name the place, or else the rows of its section."""
    names = ([place["row"]] if place["row"] else []) + stands_for(place)
    cited = [] if place["row"] else [row for row in all_rows() if (place["rfc"], place["section"]) in row.places]
    return cited + [row for row in map(row_named, names) if row]


def elsewhere():
    """The rows that `mutate` cannot reach, and for which instead.toml names a test."""
    return [row for one in ENTRIES["elsewhere"] if (row := row_named(one["row"]))]


def place(crate, path, lines, at, end, rfc, section, row=None):
    name, text = str(path.relative_to(TOP)), "\n".join(lines[at:end])
    found = dict(file=name, line=at + 1, end=end, rfc=rfc, section=section, row=row, crate=crate, text=text)
    key = hashlib.sha256("\n".join([name, text, *(new for _, new in instead(found))]).encode()).hexdigest()[:16]
    return dict(found, key=key)


def entries(place):
    """The entries of instead.toml for the place."""
    return [one for one in INSTEAD if ("/" + place["file"]).endswith("/" + one["file"]) and anchor(one) in place["text"]]


def instead(place):
    """Pairs of code and its replacement."""
    return [(one["from"], one["to"]) for one in entries(place)]


def stale():
    """Errors in instead.toml: entries that match no place or row, or more than one."""
    everything = places()
    for one in INSTEAD:
        matching = [place for place in everything if one in entries(place)]
        name = f"instead.toml: {one['file']}: `{anchor(one)}`"
        if "row" in one and not row_named(one["row"]):
            yield f"{name}: no row, or more than one, begins with `{one['row']}`"
        elif not matching:
            yield f"{name} matches no place"
        elif {"section", "row"} & set(one) and len(matching) > 1:
            yield f"{name} matches {len(matching)} places: remove its section, or give more of the code"
        elif one["from"] not in anchor(one):
            yield f"{name} does not contain `{one['from']}`"
    for one in STANDS + ENTRIES["elsewhere"]:
        if not row_named(one["row"]):
            yield f"instead.toml: no row, or more than one, begins with `{one['row']}`"
        elif "from" in one and not any(one["row"] in stands_for(place) for place in everything):
            yield f"instead.toml: {one['file']}: `{one['from']}` matches no place"
        elif "test" in one and (one["test"] not in row_named(one["row"]).tests or not one.get("why")):
            yield f"instead.toml: {one['row']}: `{one['test']}` is not a test of that row, or the reason is missing"
    for one in REDUNDANT:
        if not any(redundant(place) == one["why"] for place in everything):
            yield f"instead.toml: {one['file']}: `{one['from']}` matches no place"
    # If two places overlap, `mutate` would never turn off one of them.
    ends = {}
    for place in sorted(everything, key=lambda place: (place["file"], place["line"])):
        before = ends.get(place["file"])
        if before and before["end"] >= place["line"] and before["key"] != place["key"]:
            yield f"{place['file']}:{place['line']}: lies within the place at line {before['line']}"
        ends[place["file"]] = place
