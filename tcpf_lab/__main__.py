"""`python -m tcpf_lab` is `tcpf-lab`."""

from tcpf_lab.cli import main

main()
