"""Pictures of recorded graphs: SVG, HTML pages, DOT and Mermaid, and trees for the terminal."""
