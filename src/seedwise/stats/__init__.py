"""Which differences are real: arrays of scores in, small frozen results out."""
