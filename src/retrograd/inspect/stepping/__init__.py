"""Step through a backward pass one operator at a time, forward and back in time."""

from .events import Event as Event
from .stepper import Stepper as Stepper
from .stepper import step as step
