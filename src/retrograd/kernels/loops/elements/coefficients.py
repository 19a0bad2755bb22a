"""Coefficients shared by references and compiled loops."""

# erf(x) = x P(x^2) / Q(x^2), highest power first, for |x| <= 4.06 in single precision.
ERF_P = (
    2.041983537432822e-06,
    0.00028480617934330434,
    0.003779515961263892,
    0.05279000087862808,
    0.1907817043761386,
    1.128379145430054,
)
ERF_Q = (
    3.800407875776774e-05,
    0.001165189406231607,
    0.014997252261423857,
    0.11425663934279387,
    0.5024086035852293,
    1.0,
)
ERF_BOUND = 4.06  # the rational function exceeds 1 for larger |x|
