"""Draw the floors of the code, from the list that the tests check.

python doc/floors.py > floors.svg
"""

import ast
from html import escape
from pathlib import Path

TABLE = Path(__file__).parents[1] / "tests" / "test_architecture.py"
WIDTH, LINE, PAD, LEFT = 760, 22, 10, 90
CHARACTERS = 72  # to a line
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:var(--pst-color-text-base,#333)}"
    ".number{font-weight:600}"
    "rect{fill:var(--pst-color-surface,#f3f4f5);stroke:var(--pst-color-border,#c9c9c9)}"
)


def table():
    """Floors of the modules, as `tests/test_architecture.py` has them."""
    for node in ast.parse(TABLE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "FLOORS":
            return ast.literal_eval(node.value)
    raise ValueError(f"{TABLE} has no FLOORS.")


def lines(names):
    """Names in lines of a bounded length."""
    rows = [[]]
    for name in names:
        if rows[-1] and len("   ".join([*rows[-1], name])) > CHARACTERS:
            rows.append([])
        rows[-1].append(name)
    return ["   ".join(row) for row in rows]


def picture():
    """An SVG that takes its colors from the page around it."""
    floors = {}
    for name, floor in table().items():
        floors.setdefault(floor, []).append(name or "sklearn_softkmeans")
    parts, y = [], 0
    for floor in sorted(floors, reverse=True):
        rows = lines(sorted(floors[floor]))
        height = len(rows) * LINE + 2 * PAD - 4
        parts.append(f'<rect x="1" y="{y + 1}" width="{WIDTH - 2}" height="{height}" rx="6"/>')
        for number, row in enumerate(rows):
            baseline = y + PAD + 15 + number * LINE
            if number == 0:
                parts.append(f'<text class="number" x="12" y="{baseline}">floor {floor}</text>')
            parts.append(
                f'<text x="{LEFT}" y="{baseline}" xml:space="preserve">{escape(row)}</text>'
            )
        y += height + 6
    title = "Modules by floor: each imports only from floors below its own."
    return (
        f'<svg class="floors" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" '
        f'viewBox="0 0 {WIDTH} {y}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    print(picture(), end="")
