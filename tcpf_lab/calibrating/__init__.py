"""A calibration carried out: points of the search become runs, runs numbers, numbers a verdict.

What is proposed and concluded from the numbers is `tcpf_lab.calibration`'s.
"""
