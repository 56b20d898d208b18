"""The publisher: snapshot, publish, and the digest of a file. The verifier never imports it."""
