"""Keys that never leave AWS KMS: signers, and key-encryption keys beside those in local files."""
