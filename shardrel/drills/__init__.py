"""Fault drills: what can go wrong in the world, done on purpose on a scratch store."""
