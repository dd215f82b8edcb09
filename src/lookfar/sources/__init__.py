"""What may be read, and what changed: policy, confined opening, walking and fingerprints.

Takes: a folder and the rules for it. Gives: the files that may be indexed,
their bytes, and enough about them to see a change. Refuses: everything outside
the folder, everything secret by name, and every kind of link.
"""
