"""Layout of pictures as nested layered drawings."""
