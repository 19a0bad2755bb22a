"""Operators on images, signals and volumes."""
