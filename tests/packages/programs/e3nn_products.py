"""e3nn: spherical harmonics, tensor products from generated code (torch.fx), and their equivariance."""

import copy
import pickle

import torch
from common import data, filled, gradients, show
from e3nn import o3

torch.set_default_dtype(torch.float64)
irreps = o3.Irreps("4x0e+6x1o+2x2e")
x, places = data("x", 5, irreps.dim), data("places", 5, 3)
harmonics = o3.spherical_harmonics("0e+1o+2e", places, normalize=True)
product = filled(o3.FullyConnectedTensorProduct(irreps, "0e+1o+2e", "3x0e+2x1o"))
result = product(x, harmonics)
result.pow(2).sum().backward()
show(harmonics=harmonics, product=result, gradient=gradients(product))
show(linear=filled(o3.Linear(irreps, "2x0e+1x1o"))(x), wigner=o3.wigner_3j(1, 1, 2))
rotation = o3.angles_to_matrix(torch.tensor(0.3), torch.tensor(0.4), torch.tensor(0.5))
turned = product(
    x @ irreps.D_from_matrix(rotation).T, o3.spherical_harmonics("0e+1o+2e", places @ rotation.T, normalize=True)
)
difference = turned - result @ o3.Irreps("3x0e+2x1o").D_from_matrix(rotation).T
show(equivariant=bool(difference.abs().max() < 1e-12))
reduced = o3.ReducedTensorProducts("ij=ji", i="1o")
show(irreps=str(reduced.irreps_out), reduced=reduced(places[:1], places[1:2]))
for copied in (pickle.loads(pickle.dumps(product)), copy.deepcopy(product)):
    show(copied=copied(x, harmonics))
