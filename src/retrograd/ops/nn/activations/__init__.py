"""The activation functions of ``nn.functional``."""
