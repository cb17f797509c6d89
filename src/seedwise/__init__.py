"""seedwise: train RLVR methods over seeds, evaluate them, and test which one wins."""
