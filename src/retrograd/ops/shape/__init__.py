"""Operators on shapes and layouts: views, joins, copies and conversions."""
