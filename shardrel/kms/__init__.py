"""Keys that never leave AWS KMS, as signers."""
