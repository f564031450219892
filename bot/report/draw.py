"""Vega-Lite specifications made pictures: SVG that stands in an HTML page.

What vl-convert returns is a file of its own. In a page with others its ids must differ from
theirs, its colours are CSS variables already, and a `description` of a mark becomes what the
page's script shows where one points at it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import vl_convert

VEGA_LITE: Final = "5.20"
_CONFIG: Final[Mapping[str, Any]] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--quiet)",
        "titleColor": "var(--quiet)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
    },
    "axisX": {"grid": False},
    "axisY": {
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "minExtent": 72,
        "maxExtent": 72,
    },
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 12,
        "symbolSize": 90,
        "orient": "bottom",
        "direction": "horizontal",
        "title": None,
        "columnPadding": 22,
    },
    "text": {"fontSize": 12, "fill": "var(--ink)"},
}

_TIP: Final = re.compile(
    r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="[^"]*"'
)
_ARIA: Final = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events|font-family)="[^"]*"')
_NUMBERS: Final = re.compile(r'(?<= (?:d|x|y)=")[^"]*|(?<= (?:x2|y2)=")[^"]*')
_TRANSFORM: Final = re.compile(r'(?<= transform=")[^"]*')
_LONG: Final = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")
_ID: Final = re.compile(r'(?<= id=")(?=clip)|(?<=url\(#)(?=clip)')
_HEAD: Final = re.compile(
    r"<svg [^>]*?(width=\"[\d.]+\" height=\"[\d.]+\" viewBox=\"[^\"]*\")[^>]*>"
)


def draw(spec: Mapping[str, Any], name: str) -> str:
    """Return the picture of a chart as `<svg>` for a page; `name` is unlike any other's there.

    Args:
        spec: a Vega-Lite specification, its data in it; a mark's `description` becomes its tip.
        name: letters, digits and hyphens.
    """
    whole = {
        "background": None,
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": 4,
        **spec,
        "config": _CONFIG,
    }
    svg = vl_convert.vegalite_to_svg(whole, vl_version=VEGA_LITE, allowed_base_urls=[])
    svg = _TIP.sub(r'data-tip="\1"', svg)
    svg = _ARIA.sub("", svg)
    svg = _NUMBERS.sub(_shorten, svg)
    svg = _TRANSFORM.sub(_shorten, svg)
    svg = _ID.sub(f"{name}-", svg)
    return _HEAD.sub(r'<svg \1 aria-hidden="true" focusable="false">', svg, count=1)


def _shorten(attribute: re.Match[str]) -> str:
    return _LONG.sub(lambda number: f"{float(number[0]):.1f}", attribute[0])
