"""Operators that say where elements lie: shapes, views, joins, conversions."""
