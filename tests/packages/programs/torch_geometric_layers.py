"""torch-geometric: graph convolutions, batches of graphs, and message passing."""

import torch
import torch.nn.functional as F
from common import data, filled, gradients, show
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing, SAGEConv, global_mean_pool
from torch_geometric.utils import degree, softmax, to_dense_adj

edges = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])
x = data("nodes", 4, 3)
graph = Data(x=x, edge_index=edges, y=torch.tensor([0, 1, 0, 1]))
show(graph=str(graph), undirected=graph.is_undirected())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(3, 8), GCNConv(8, 2)

    def forward(self, graph):
        hidden = F.relu(self.first(graph.x, graph.edge_index))
        return F.log_softmax(self.second(hidden, graph.edge_index), 1)


net = filled(Net())
loss = F.nll_loss(net(graph), graph.y)
loss.backward()
show(loss=loss, gradient=gradients(net))
for layer in (GATConv(3, 4, heads=2), SAGEConv(3, 4), GINConv(torch.nn.Linear(3, 4))):
    show(**{type(layer).__name__: filled(layer)(x, edges)})


class Edges(MessagePassing):
    def __init__(self):
        super().__init__(aggr="max")
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.linear(torch.cat([x_i, x_j - x_i], 1))


show(messages=filled(Edges())(x, edges), degrees=degree(edges[0]), weights=softmax(data("edges", 8), edges[0]))
for batch in DataLoader([graph, graph.clone(), graph], batch_size=2):
    show(pooled=global_mean_pool(batch.x, batch.batch), starts=str(batch.ptr.tolist()))
show(adjacency=to_dense_adj(edges))
