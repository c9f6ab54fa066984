"""Files to arrays: captures, flows, loss recovery, the bottleneck."""
