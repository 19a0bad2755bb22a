"""HTML of Tensors, Parameters and modules for notebooks, without scripts and in the page's own colours."""
