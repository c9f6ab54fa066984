"""The documentation as a web site: `./lab docs`."""
