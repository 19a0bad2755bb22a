"""PyTorch's legacy names and module paths, so that programs run as they are; all is loaded when first asked for.

``retrograd._hooks`` sends here what nobody else answers: names that a module lacks (``names``), module paths that
are PyTorch's alone (``paths``), legacy methods of Tensors (``tensor_methods``) and legacy forms of calls (``calls``).
"""
