"""What runs on a host for the length of a run: carries requests out, and undoes all of it.

Standard library only, Python 3.9 or newer, and nothing of the rest of the package: it is packed
into one file and sent to hosts.
"""
