"""Proofs: made from what a release has stored. ``verifier.proof`` checks them."""
