"""Stores: a port of few operations, adapters named for their product, and the keys that objects lie under."""
