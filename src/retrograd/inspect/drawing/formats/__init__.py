"""A scene as SVG, as a page, and as DOT and Mermaid."""
