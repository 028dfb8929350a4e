"""Reports how long the sentences of README and docs are: a report, not a gate.

The aim is a mean of at most 18 words, and no sentence over 35.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEAN, LONGEST = 18, 35


def sentences(text: str) -> list[str]:
    """Return the sentences of a page, without code, tables, formulas and addresses."""
    text = re.sub(r"^```.*?^```$|\$\$.*?\$\$|<!--.*?-->", "\n\n", text, flags=re.M | re.S)
    text = re.sub(r"^(?:#|\||!\[|--8<--).*$", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)|[*`\[\]_]", "", text)
    found = []
    for paragraph in re.split(r"\n\s*\n|^\s*(?:[-·]|\d+\.)\s", text, flags=re.MULTILINE):
        found += re.split(r"(?<=[.?!:])\s+(?=[A-ZΓ“\"])", " ".join(paragraph.split()))
    return [sentence for sentence in found if re.search(r"[^\W\d_]{2}", sentence)]


def main() -> None:
    """Print the mean and the longest sentence of every page."""
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        found = sentences(page.read_text(encoding="utf-8"))
        counts = [len(sentence.split()) for sentence in found]
        mean = sum(counts) / len(counts)
        note = "  long" if mean > MEAN or max(counts) > LONGEST else ""
        print(f"{page.name:18} {len(found):4} sentences, mean {mean:4.1f}, max {max(counts)}{note}")
        if "-v" in sys.argv:
            for sentence in (s for s in found if len(s.split()) > LONGEST):
                print(f"    {sentence}")


if __name__ == "__main__":
    main()
