"""What a training prediction returns: the result record, its figures, grades and JSON."""
