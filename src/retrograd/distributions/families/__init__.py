"""The distributions themselves, by the kind of their values."""
