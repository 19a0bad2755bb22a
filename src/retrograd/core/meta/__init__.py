"""The device ``meta``: Tensors that have a shape, a dtype and strides, and no numbers.

``arrays`` has the array type, in memory that is reserved and never written, and its backend. ``evaluation`` finds what
operators give on such arrays. Both are loaded when a program first names the device, by ``provided["meta"]``; nothing
but ``retrograd._hooks`` imports them.
"""
