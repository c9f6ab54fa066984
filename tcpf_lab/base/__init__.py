"""What every room stands on: errors, units, commands as text, files of the installation."""
