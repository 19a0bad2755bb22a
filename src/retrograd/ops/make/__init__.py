"""Operators that create Tensors, including random Tensors.

``creation`` takes data, ``filled`` and ``ranges`` need only arguments, ``random`` and ``sampling`` draw numbers from
``generators``, ``window_functions`` and ``signal_windows`` have windows, ``dlpack`` takes other libraries' arrays. Any
package above ``core`` may import them.
"""
