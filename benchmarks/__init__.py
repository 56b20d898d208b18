"""Benchmarks: ratios against a stated baseline, both sides in one run. ``make bench`` runs them all."""
