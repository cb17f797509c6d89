"""What is optimised: pure parts on tensors.  Nothing here imports torch."""
