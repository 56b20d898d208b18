"""Membership: which records a release holds, as tuples, leaves, trees and differences."""
