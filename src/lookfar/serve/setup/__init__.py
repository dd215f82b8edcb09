"""``lookfar setup``: other programs' configuration, edited with care.

Takes: what is installed on this machine. Gives: Lookfar in the agents that people already
use, and a way back. Refuses: to change a byte of somebody's file that is not ours to change.
"""
