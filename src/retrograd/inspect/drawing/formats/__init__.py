"""A scene as SVG, as a page, and as DOT and Mermaid.

Functions such as ``svg_of`` take a ``Scene`` of ``drawing.layout`` and return text. Drawings, the stepper and the
doctor's page import them.
"""
