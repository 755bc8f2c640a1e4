"""The command `osamd`."""
