"""Text generation behind one interface (base.py); transformers.py is the engine of the CPU study."""
