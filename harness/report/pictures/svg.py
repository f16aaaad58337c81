"""Draw a picture to be inlined: matplotlib SVG without scripts, the same bytes for the same numbers, ids of its own.

Colours are Okabe and Ito's; each stands for a token of style.css, so that a picture follows light, dark and print. Text
stays text: it is set in DejaVu Sans where that is installed, the room for it is measured in DejaVu Sans anywhere.
"""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

INK, LAW, WARN, GOOD, SOFT, LINE = "#010203", "#0072b2", "#d55e00", "#009e73", "#040506", "#070809"
TOKENS = {LAW: "--law", WARN: "--warn", GOOD: "--good", SOFT: "--soft", LINE: "--line"}
STYLE: Any = {
    "svg.hashsalt": "pp3",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.0,
}
BETWEEN = 0.2  # inches between two rows
WIDTH = 4.8  # inches of a picture of which two stand side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a page: the drawing, its caption, and its numbers."""

    title: str  # what is drawn
    finding: str  # what the numbers say
    svg: str
    head: tuple[str, ...]  # of the table of its numbers
    rows: list[tuple[str | int, ...]]
    note: str = ""  # what was pooled or left out


def draw(
    name: str,
    label: str,
    size: tuple[float, float],
    plot: Callable[[Figure], None],
    top: float = 0.1,
    bottom: float = 0.45,
) -> str:
    """One drawing of `size` inches, fit to be inlined; `top` and `bottom` of them are margins for titles and labels.

    `name` is unique on its page, `label` is what a reader hears.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size)
        inside = size[1] - top - bottom
        figure.subplots_adjust(top=1 - top / size[1], bottom=bottom / size[1], hspace=2 * BETWEEN / (inside - BETWEEN))
        plot(figure)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return inlined(buffer.getvalue(), name, label)


def inlined(svg: str, name: str, label: str) -> str:
    """A drawing with ids of its own, tokens for colours, and no more bytes than are seen."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>|<defs>\s*</defs>", "", svg, flags=re.DOTALL)
    needed = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    short = {id: f"{name}-{at}" for at, id in enumerate(needed)}
    svg = re.sub(r"\s*(<[^>]*>)\s*", lambda tag: _tag(tag[1], short), svg)
    svg = re.sub(r'<defs></defs>|(?<= [xy]=")-?\d+\.\d\d(?=")', lambda found: _tenths(found[0]), svg)
    svg = re.sub(r"<g>((?:(?!</?g\b).)*)</g>", r"\1", svg)
    svg = re.sub(r"(?:<use [^>]*/>){2,}", _together, svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{_attribute(label)}" ', 1)


def log_axis(axis: Axis, steps: tuple[float, ...] = (1, 2, 5)) -> None:
    """A logarithmic axis with plain numbers at these steps of each decade."""
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def label_of(text: str, most: int = 28) -> str:
    """A name fit to be drawn: what a font may lack, or what turns the direction, is escaped, and it is cut."""
    plain = "".join(letter if " " <= letter <= "~" else f"\\u{ord(letter):04x}" for letter in text)
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _tag(tag: str, short: dict[str, str]) -> str:
    """A tag with short ids, those alone that are referred to, tokens for colours, and two decimals: hundredths of a
    point are not seen."""
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
    tag = re.sub(r' font-family: [^;"]*;| transform="rotate\(-0 [^)]*\)"| xmlns:xlink="[^"]*"', "", tag)
    tag = re.sub(r' id="([^"]*)"', lambda id: f' id="{short[id[1]]}"' if id[1] in short else "", tag)
    tag = re.sub(r"url\(#([^)]+)\)", lambda id: f"url(#{short[id[1]]})", tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', lambda id: f'href="#{short[id[1]]}"', tag)
    tag = tag.replace(INK, "currentColor")
    for colour, token in TOKENS.items():
        tag = tag.replace(colour, f"var({token})")
    return re.sub(r"\s+", " ", tag).replace(' "', '"')


def _tenths(number: str) -> str:
    """The place of a mark, to a tenth of a point; nothing of anything else."""
    return f"{float(number):.1f}" if number[0] != "<" else ""


def _together(uses: re.Match[str]) -> str:
    """Marks of one style as a group that has it."""
    styles = set(re.findall(r' style="[^"]*"', uses[0]))
    if len(styles) != 1:
        return uses[0]
    (style,) = styles
    return f"<g{style}>{uses[0].replace(style, '')}</g>"


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
