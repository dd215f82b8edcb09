"""The faces of Lookfar: what people and agents talk to.

Takes: arguments and requests. Gives: results on stdout, everything else on
stderr. Refuses: to decide anything about searching; that is the library's.
"""
