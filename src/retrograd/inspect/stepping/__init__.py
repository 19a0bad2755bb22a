"""Step through a backward pass one operator at a time, forward and back in time.

``stepper`` holds the state of a backward pass, ``rule_source`` and ``formulas`` show the derivative of an operator,
``page`` writes the HTML. ``retrograd step`` and ``inspect.explaining`` import modules.
"""

from .events import Event as Event
from .stepper import Stepper as Stepper
from .stepper import step as step
