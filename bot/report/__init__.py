"""Pictures of a run: one self-contained HTML page of a journal, and one of a runs folder.

`story` folds a journal into what its page tells, with `boards` and `incidents` for two parts of
it; `charts` draws; `page` puts everything into HTML. Who calls writes the file.

The charts are Vega-Lite's, turned into plain SVG by vl-convert while the page is built: no
script of a library travels in the page (plotly's alone is near 5 MB), every colour stays a CSS
variable, so light and dark need nothing else, and the numbers stay text.
"""
