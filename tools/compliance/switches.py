"""Puts many mutants into one build: at each rule's code, a switch chooses between the code and a version without the rule. The
environment variable MUTANT turns one mutant on."""
import re
import subprocess

from rows import TOP

FUNCTION = """
extern crate std;

/// Whether the mutant with this number is on.
#[doc(hidden)]
pub fn mutant(number: u32) -> bool {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    *CHOSEN.get_or_init(read) == number
}
"""


def on(number):
    return f"crate::mutant({number})"


def choose(alternatives, original):
    """An expression that chooses between the original and its alternatives."""
    cases = "".join(f"if {on(number)} {{ {text} }} else " for number, text in alternatives)
    return f"{cases}{{\n{original}\n}}"


def variants(text, numbers, replacements):
    """Alternative versions of `text` with a switch for each number, those that are most likely to compile first. `replacements` has a pair of
    old and new code for each number. Without replacements, the switch removes the whole text."""
    found = []
    if replacements:
        part = text
        # Apply the longest replacements first. If a replacement lies inside another, it would change the text
        # that the other must find.
        for number, (old, new) in sorted(zip(numbers, replacements), key=lambda pair: -len(pair[1][0])):
            part = part.replace(old, f"({choose([(number, new)], old)})", 1) if new and old in part else None
            if part is None:
                break
        found += [part] if part else []
    others = [text.replace(old, new, 1) for old, new in replacements]
    shapes = [
        # The shapes are `let PATTERN = VALUE else { ... };`, `let NAME = VALUE;`, `name: value,` and `pattern
        # => value,`.
        r"(\s*let .*? =\s+)((?!if ).*)( else \{.*\};\s*)\Z",
        r"(\s*let (?:mut )?\w+(?:: [^=]+?)? =\s+)(.*)(;\s*)\Z",
        r"(\s*\w+: )(.*)(,\s*)\Z",
        r"(.*? => )(.*?)(,?\s*)\Z",
    ]
    for shape in shapes:
        whole = re.match(shape, text, re.S)
        if not whole:
            continue
        before, value, after = whole.groups()
        if replacements:
            cut = [re.match(shape, other, re.S) for other in others]
            if all(cut) and all(other[1] == before and other[3] == after for other in cut):
                chosen = choose([(n, c[2]) for n, c in zip(numbers, cut)], value)
                # In Rust, the expression before `else` must not end with a brace, so put it into parentheses.
                found.append(f"{before}({chosen}){after}" if after.startswith(" else") else f"{before}{chosen}{after}")
        elif "=>" in before:
            pattern = before[: before.rindex("=>")].rstrip()
            guard = re.match(r"(.*?) if (.*)\Z", pattern, re.S)
            guarded = f"{guard[1]} if ({guard[2]}) && " if guard else f"{pattern} if "
            found.append(f"{guarded}!{on(numbers[0])} => {value}{after}")
            found += [f"{before}{choose([(numbers[0], other)], value)}{after}" for other in ("", "Default::default()", "true")]
        else:
            found += [f"{before}{choose([(numbers[0], other)], value)}{after}" for other in ("Default::default()", "true")]
        return found
    if text.lstrip().startswith("let "):
        return found
    if replacements:
        found.append(choose(list(zip(numbers, others)), text))
    else:
        found.append(f"if !{on(numbers[0])} {{\n{text}\n}}")
    return found


def copy(tree, texts):
    """Copies the tree, with other texts for some files. Writes a file only if it differs, so that cargo does not rebuild it."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        source, path = TOP / name, tree / name
        if not source.is_file():
            continue
        content = texts[name].encode() if name in texts else source.read_bytes()
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
