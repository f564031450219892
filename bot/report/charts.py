"""Which charts a run has.

Nothing that a service sent is in a chart: its words are numbers, times and names of ours.
"""

from __future__ import annotations

from bot.report import in_all, over_time
from bot.report.axes import TimeAxis
from bot.report.story import Story
from bot.report.vega import Chart


def build(story: Story) -> list[Chart]:
    """Return the charts of a run; one in which no time passed has none."""
    timeline = story.timeline
    if timeline.played <= 0 or timeline.requests < 2:
        return []
    axis = TimeAxis(timeline)
    charts = [over_time.score(story, axis), over_time.rate(story, axis)]
    if timeline.answers_ms():
        charts += [over_time.answers(story, axis), in_all.distribution(story)]
    return [*charts, in_all.templates(story)]
