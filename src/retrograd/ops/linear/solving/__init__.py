"""Systems of linear equations, inverses, least squares, and the norms and ranks of matrices.

``systems``, ``inverses`` and ``least_squares`` solve, ``matrix_norms`` has norms and condition numbers, ``checked``
reports failures per matrix instead of raising errors. ``scipy``, ``ode`` and ``func`` import them.
"""
