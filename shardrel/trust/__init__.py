"""Trust: keys, envelopes, statements and the policy that says whose word counts."""
