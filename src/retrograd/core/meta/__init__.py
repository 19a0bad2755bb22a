"""The device ``meta``: Tensors that have a shape, a dtype and strides, but no elements.

``arrays`` defines the array type, on reserved memory that is never written, and its backend. ``evaluation`` computes
the shapes and dtypes of operators' results. Only ``retrograd._hooks`` imports these modules, by ``provided["meta"]``
when a program first uses the device.
"""
