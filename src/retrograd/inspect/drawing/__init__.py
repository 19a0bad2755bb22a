"""Pictures of recorded graphs: SVG, HTML pages, DOT and Mermaid, and trees for the terminal.

``graph_picture`` and ``record_picture`` turn a graph or a trace into a ``Picture``; ``grouping``, ``repeats`` and
``nested_boxes`` put its vertices into boxes, ``layout`` computes positions, and ``formats`` writes the result. Other
folders of ``inspect`` import these modules.
"""
