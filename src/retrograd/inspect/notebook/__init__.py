"""HTML of Tensors, Parameters and modules for notebooks, without scripts and in the page's own colors.

Notebooks call ``_repr_html_``, which ``retrograd._hooks`` defines with the functions of this folder. The stepper's page
also uses the heat maps.
"""
