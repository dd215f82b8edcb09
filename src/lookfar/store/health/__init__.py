"""Detect damage in a store, repair it, and salvage what cannot be rebuilt."""
