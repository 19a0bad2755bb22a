"""Control flow as functions with JAX's names and meaning: loops, branches and prefix sums.

``scan`` has the loop with stacked results, ``counted`` the loops without (``fori_loop``, ``while_loop``) and ``cond``,
``prefixes`` has ``associative_scan``, and ``leaves`` the checks of arguments that they share. Called by users through
``retrograd.func``, and by solvers. The compiler replaces a loop by one compiled body.
"""
