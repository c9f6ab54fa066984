"""The study of assured and expedited forwarding."""
