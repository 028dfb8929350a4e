"""Models of any kind, as functions of rows."""
