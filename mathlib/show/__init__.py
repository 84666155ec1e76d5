"""How things look: pictures, tables, experiments. Importing it teaches every sum of parts to draw
itself.
"""

from mathlib import parts as _parts
from mathlib.show.charts import byte_bars, curves
from mathlib.show.comparison import compare
from mathlib.show.drawing import graph
from mathlib.show.figures import figure
from mathlib.show.gantt import schedule_chart
from mathlib.show.ledger import verdict
from mathlib.show.link_chart import links
from mathlib.show.memory_chart import memory_line
from mathlib.show.pictures import parts_bar, parts_picture
from mathlib.show.prediction import predict
from mathlib.show.tables import source, table
from mathlib.show.timelines import ranks_timeline
from mathlib.show.widgets import explore

__all__ = [
    "byte_bars",
    "compare",
    "curves",
    "explore",
    "figure",
    "graph",
    "links",
    "memory_line",
    "parts_bar",
    "predict",
    "ranks_timeline",
    "schedule_chart",
    "source",
    "table",
    "verdict",
]

_parts.renderer = parts_picture
