"""The independent verifier: own row encoding, own membership, written from schemas/SPEC.md alone.

``verify.verify_release`` is the verb, ``recheck.recheck_fences`` its short form for new fence entries,
``digest.digest_file`` the encoder by itself. It reads; all that it writes is signed.
"""

__all__ = ["digest", "recheck", "verify"]
