"""Tables and reports as values, and how they are printed and written."""
