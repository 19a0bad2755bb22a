"""Control flow as functions with JAX's names and meaning: loops, branches and prefix sums.

``scan`` has the loop with stacked results, ``counted`` has ``cond`` and the loops without stacked results
(``fori_loop``, ``while_loop``), ``prefixes`` has ``associative_scan``, and ``leaves`` has the checks of arguments that
these modules share. Users call the functions through ``retrograd.func``; solvers import them. The compiler replaces a
loop by one compiled body.
"""
