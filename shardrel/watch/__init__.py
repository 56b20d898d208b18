"""What a process shows of itself while it works: figures, readiness, events; digests, counts and codes alone."""
