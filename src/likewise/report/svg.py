"""Small pictures as text: SVG elements whose every value is escaped.

Horizontal places are percentages, so that a picture is as wide as its place and its letters keep
their size: readable on a phone, sharp in print.
"""

import math

from markupsafe import Markup, escape


def element(name: str, *children: str | Markup, **attributes: object) -> Markup:
    """Return one element; ``stroke_width`` stands for ``stroke-width``, ``class_`` for ``class``.

    Examples
    --------
    >>> print(element("text", "<b>", x="5%", class_="tick"))
    <text x="5%" class="tick">&lt;b&gt;</text>
    """
    named = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), named, inside)


def picture(*children: Markup, height: int, label: str, name: str) -> Markup:
    """Return a picture of full width that screen readers announce by ``label``."""
    return element(
        "svg", *children, class_=f"chart {name}", height=height, role="img", aria_label=label
    )


def decoration(*children: Markup, height: int, name: str) -> Markup:
    """Return a picture whose numbers also stand beside it, so that screen readers skip it."""
    return element("svg", *children, class_=name, height=height, aria_hidden="true")


def _drawn(*places: float) -> bool:
    """Tell whether there is a place to draw at: what is not a number is left out."""
    return not any(math.isnan(place) for place in places)


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> Markup:
    """Return a line; x in per cent, y in pixels."""
    if not _drawn(x1, y1, x2, y2):
        return Markup("")
    return element("line", x1=f"{x1}%", y1=y1, x2=f"{x2}%", y2=y2, class_=name)


def box(x: float, y: float, width: float, height: float, name: str) -> Markup:
    """Return a rectangle; x and width in per cent."""
    return element(
        "rect", x=f"{x}%", y=y, width=f"{max(width, 0):.2f}%", height=height, class_=name
    )


def dot(x: float, y: float, radius: float, name: str) -> Markup:
    """Return a filled circle."""
    if not _drawn(x, y):
        return Markup("")
    return element("circle", cx=f"{x}%", cy=y, r=radius, class_=name)


def label(text: str, x: float, y: float, name: str, anchor: str | None = None) -> Markup:
    """Return text at a place; near the ends it grows inwards."""
    # A letter is about 0.9 % of half a phone's width.
    room = 0.9 * len(text)
    side = anchor or ("start" if x < room else "end" if x > 100 - room else "middle")
    return element("text", text, x=f"{x}%", y=y, class_=name, text_anchor=side)
