"""The places of the code that rules are in: what `mutate` switches off."""
import hashlib
import re
import tomllib

from rows import TOP

CRATES = ["dccp-proto", "dccp-wire", "mpdccp-proto", "dccp-cc"]
INSTEAD = tomllib.loads((TOP / "tools" / "compliance" / "instead.toml").read_text())["instead"]
CITED = re.compile(r"^\s*// .*?RFC (\d{4})(?:,)? sections? ([0-9.]+)")


def statement(lines, at):
    """The lines of the statement or match arm that begins at `at`: until its brackets are closed and it has an end."""
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
    return found


def named(path, lines):
    """The places that instead.toml names by their section: lines, RFC and section of each."""
    text = "\n".join(lines)
    for one in INSTEAD:
        if "section" in one and str(path).endswith("/" + one["file"]) and one["from"] in text:
            at = text[: text.index(one["from"])].count("\n")
            yield (at, at + one["from"].count("\n") + 1, *one["section"].split())


def place(crate, path, lines, at, end, rfc, section):
    name, text = str(path.relative_to(TOP)), "\n".join(lines[at:end])
    found = dict(file=name, line=at + 1, end=end, rfc=rfc, section=section, crate=crate, text=text)
    key = hashlib.sha256("\n".join([name, text, *(new for _, new in instead(found))]).encode()).hexdigest()[:16]
    return dict(found, key=key)


def entries(place):
    """What was written down for the place."""
    return [one for one in INSTEAD if ("/" + place["file"]).endswith("/" + one["file"]) and one["from"] in place["text"]]


def instead(place):
    """What stands there, and what stands instead."""
    return [(one["from"], one["to"]) for one in entries(place)]


def stale():
    """What is wrong with instead.toml: entries that stand for nothing, or for more than one place."""
    everything = places()
    for one in INSTEAD:
        matching = [place for place in everything if one in entries(place)]
        name = f"instead.toml: {one['file']}: `{one['from']}`"
        if not matching:
            yield f"{name} is in no place"
        elif "section" in one and len(matching) > 1:
            yield f"{name} is in {len(matching)} places: drop its section, or say more of it"
