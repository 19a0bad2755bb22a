"""linear_operator: structured matrices through the functions of torch."""

import linear_operator
import torch
from common import data, show
from linear_operator.operators import (
    DenseLinearOperator,
    DiagLinearOperator,
    KroneckerProductLinearOperator,
    RootLinearOperator,
    ToeplitzLinearOperator,
)

matrix = RootLinearOperator(data("root", 4, 3)) + DiagLinearOperator(data("diagonal", 4).abs() + 1)
b = data("b", 4).requires_grad_()
torch.matmul(matrix, b).sum().backward()
show(solved=linear_operator.solve(matrix, b), gradient=b.grad, determinant=torch.logdet(matrix))
show(linalg=torch.linalg.solve(matrix, b.unsqueeze(-1)), sliced=matrix[1:3, 1:3].to_dense(), diagonal=matrix.diagonal())
quadratic, determinant = matrix.inv_quad_logdet(torch.ones(4, 1, dtype=b.dtype), logdet=True)
show(quadratic=quadratic, again=determinant)
toeplitz = ToeplitzLinearOperator(torch.tensor([4.0, 1.0, 0.5], dtype=b.dtype))
kronecker = KroneckerProductLinearOperator(DenseLinearOperator(torch.eye(2, dtype=b.dtype) * 2), toeplitz)
show(toeplitz=toeplitz.cholesky().to_dense(), kronecker=kronecker @ data("six", 6), shape=str(tuple(kronecker.shape)))
