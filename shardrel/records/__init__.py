"""Records: the closed, canonical JSON objects of the protocol, a file each."""
